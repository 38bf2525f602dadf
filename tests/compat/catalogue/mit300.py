"""MIT300 in miniature: numbered pictures in `BenchmarkIMAGES/`, beside saliency maps of an example
(`SM`) and what macOS adds to archives."""

from saliency_parts import jpeg, picture, write_zip


def build(indir):
    images = [("BenchmarkIMAGES/", b"")]
    images += [(f"BenchmarkIMAGES/i{n}.jpg", jpeg(picture(f"mit300 {n}"))) for n in (1, 2, 10)]
    images += [("BenchmarkIMAGES/SM/i1.jpg", b"not read"), ("__MACOSX/BenchmarkIMAGES/._i1.jpg", b"not read")]
    write_zip(indir / "BenchmarkIMAGES.zip", images)
