//! MIT300: images of a benchmark for saliency, whose fixations are kept secret.

use super::parts::{Sample, Samples};
use super::{Dataset, File, Opening, Pass, Split, Take};
use crate::error::Result;

/// MIT300.
pub(super) static MIT300: Dataset = Dataset {
    name: "MIT300",
    title: "300 images of the MIT saliency benchmark; no fixations",
    notes: "",
    url: "http://saliency.mit.edu/results_mit300.html",
    licence: "not stated by its authors",
    citation: "Tilke Judd, Frédo Durand and Antonio Torralba: A Benchmark of Computational Models \
               of Saliency to Predict Human Fixations. MIT-CSAIL-TR-2012-001, 2012",
    files: &[File::new("images", "BenchmarkIMAGES.zip")
        .url("http://saliency.mit.edu/BenchmarkIMAGES.zip")
        .md5("03ed32bdf5e4289950cd28df89451260")],
    splits: &[Split::new("MIT300", 300)],
    fields: &[("key", "the name in the archive"), ("image", "JPEG, as it is in the archive")],
    classes: &[],
    takes: &[Take::Shuffle],
    read,
};

fn read(opening: &Opening<'_>) -> Result<Vec<Pass>> {
    let images = opening.zip("images")?;
    let names: Vec<String> =
        images.names().filter(|name| is_image(name)).map(str::to_owned).collect();
    let total = names.len();
    let make = move |name: String| {
        let image = images.read(&name)?;
        Sample::new(name).bytes("image", &image).pack()
    };
    let samples = Samples::new(opening.options.order(names), make);
    Ok(vec![Pass::new(&MIT300.splits[0], samples).total(total)])
}

/// There are saliency maps of a model (`SM`) too, and what macOS adds.
fn is_image(name: &str) -> bool {
    name.ends_with(".jpg") && !name.contains("SM") && !name.starts_with("__")
}
