//! Pipelines as text, what is refused, and the draws, which are frozen.

use kiste::ErrorKind;
use kiste::image::{
    Header, Layout, Mode, NewSize, Padding, PaddingMode, Pipeline, PixelType, Size, Step, Worker,
};
use kiste::sampler::rng::StableRng;

use super::png;

fn pipeline(text: &str) -> Pipeline {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Each text, and as it prints.
const TEXTS: &[(&str, &str)] = &[
    ("", ""),
    ("hflip", "hflip"),
    ("random_horizontal_flip(0.5) | vflip(p = 0.25)", "hflip | vflip(0.25)"),
    ("resize(256)|center_crop( 224 )", "resize(256) | center_crop(224)"),
    ("resize((10,20), bicubic)", "resize((10, 20), interpolation=bicubic)"),
    ("resize([300], max_size=500)", "resize(300, max_size=500)"),
    (
        "random_resized_crop((96, 64), scale=[0.5, 1], ratio=(0.75, 1.3333333333333333))",
        "random_resized_crop((96, 64), scale=(0.5, 1))",
    ),
    ("random_crop(32, 4)", "random_crop(32, padding=4)"),
    (
        "random_crop(32, padding=(1, 2), pad_if_needed=true, fill=(1, 2, 3), padding_mode=constant)",
        "random_crop(32, padding=(1, 2, 1, 2), pad_if_needed=true, fill=(1, 2, 3))",
    ),
    (
        "color_jitter(0.4, 0.4, 0.4, 0.1)",
        "color_jitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)",
    ),
    ("color_jitter(hue=(-0.1, 0.2))", "color_jitter(hue=(-0.1, 0.2))"),
    ("color_jitter(2)", "color_jitter(brightness=2)"),
    ("pad((1, 2, 3, 4), padding_mode=edge)", "pad((1, 2, 3, 4), padding_mode=edge)"),
    ("random_grayscale(0.1) | grayscale(p=1)", "grayscale | grayscale(1)"),
    (
        "gaussian_blur(5) | gaussian_blur([3, 7], sigma=(0.1, 1)) | gaussian_blur(kernel_size=9, sigma=1.5)",
        "gaussian_blur(5) | gaussian_blur((3, 7), sigma=(0.1, 1)) | gaussian_blur(9, sigma=1.5)",
    ),
    (
        "random_erasing | random_erasing(0.25, (0.1, 0.2), [0.5, 2], (1, 2, 3))",
        "random_erasing | random_erasing(0.25, scale=(0.1, 0.2), ratio=(0.5, 2), value=(1, 2, 3))",
    ),
    (
        "random_rotation(15) | rotate((-5, 20), bilinear, true, 7) | rotate(0)",
        "rotate(15) | rotate((-5, 20), interpolation=bilinear, expand=true, fill=7) | rotate(0)",
    ),
    (
        "random_affine(0) | affine((1, 2), (0.1, 0.2), (0.5, 2), 3, bilinear, (1, 2, 3))",
        "affine(0) | affine((1, 2), translate=(0.1, 0.2), scale=(0.5, 2), shear=3, \
         interpolation=bilinear, fill=(1, 2, 3))",
    ),
    (
        "affine(degrees=10, shear=(-1, 2)) | affine(10, shear=(-1, 2, 0, 4))",
        "affine(10, shear=(-1, 2)) | affine(10, shear=(-1, 2, 0, 4))",
    ),
    ("to(f16)", "to(f16)"),
    ("to(f32, chw) | normalize(imagenet)", "to(f32, chw) | normalize(imagenet)"),
    ("to(f32) | normalize(0.5, (1, 2, 3))", "to(f32) | normalize(0.5, (1, 2, 3))"),
    (
        "to(f32) | normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))",
        "to(f32) | normalize(imagenet)",
    ),
    (
        "seed(7) | decode(gray, max_pixels=1000) | hflip",
        "seed(7) | decode(gray, max_pixels=1000) | hflip",
    ),
    ("decode(max_pixels=9)", "decode(max_pixels=9)"),
    ("decode(scaled=false)", ""),
    ("decode(scaled=true)", "decode(scaled=true)"),
    ("decode(gray, 9, true)", "decode(gray, max_pixels=9, scaled=true)"),
    ("seed(18446744073709551615) | decode(rgba)", "seed(18446744073709551615) | decode(rgba)"),
];

#[test]
fn text_and_back() {
    for (text, expected) in TEXTS {
        let parsed = pipeline(text);
        assert_eq!(parsed.to_string(), *expected, "{text}");
        assert_eq!(pipeline(expected), parsed, "{text}");
        let json = serde_json::to_string(&parsed).unwrap();
        assert_eq!(serde_json::from_str::<Pipeline>(&json).unwrap(), parsed);
    }
}

/// Every number prints such that it is read again, also where `1 + x - 1` is not `x`.
#[test]
fn ranges_survive_the_text() {
    for number in (0..1000).map(|n| f64::from(n) / 1000.0) {
        let step = Step::color_jitter(number, 0.0, number, number / 2.0);
        let made = Pipeline::new([step]).unwrap();
        assert_eq!(pipeline(&made.to_string()), made, "{number}");
    }
}

#[test]
fn steps_by_hand_are_those_of_the_text() {
    let steps = [
        Step::random_crop(32, 4),
        Step::hflip(),
        Step::color_jitter(0.4, 0.4, 0.4, 0.1),
        Step::Pad {
            padding: Padding { left: 1, top: 2, right: 1, bottom: 2 },
            fill: vec![9],
            padding_mode: PaddingMode::Reflect,
        },
        Step::to(PixelType::F32, Layout::Chw),
        Step::normalize_imagenet(),
    ];
    let text = "random_crop(32, 4) | hflip | color_jitter(0.4, 0.4, 0.4, 0.1) \
                | pad((1, 2), fill=9, padding_mode=reflect) | to(f32, chw) | normalize(imagenet)";
    assert_eq!(Pipeline::new(steps).unwrap(), pipeline(text));
    let exact = NewSize::Exact(Size { height: 1, width: 2 });
    assert_eq!(pipeline("resize((1, 2))").steps().len(), 1);
    assert!(
        matches!(pipeline("resize((1, 2))").steps()[0], Step::Resize { size, .. } if size == exact)
    );
}

#[test]
fn what_is_refused() {
    let table = [
        (
            "random_resize_crop(224)",
            "step 1: expected a step, found \"random_resize_crop\"; near names are random_resized_crop",
        ),
        (
            "hflip | crop(3)",
            "step 2: expected a step, found \"crop\"; near names are center_crop, \
             random_resized_crop, random_crop",
        ),
        ("hflip |", "step 2: expected the name of a step, found \"\""),
        ("hflip(q=1)", "step 1, hflip: expected an argument, found \"q\"; near names are p"),
        ("hflip 0.5", "step 1, hflip: expected arguments in parentheses, found \"0.5\""),
        ("hflip(2)", "step 1, hflip: expected a probability of 0 to 1, found 2"),
        ("hflip(0.1, 0.2)", "step 1, hflip: expected no arguments after p, found \"0.2\""),
        ("hflip(p=0.1, p=0.1)", "step 1, hflip: expected p once, found it twice"),
        ("hflip(nan)", "step 1, hflip: expected a number as p, found \"nan\""),
        ("resize", "step 1, resize: expected a size, found none"),
        ("resize(0)", "step 1, resize: expected a size of 1 to 65535, found 0"),
        ("resize(-1)", "step 1, resize: expected whole numbers as size, found \"-1\""),
        (
            "resize((1, 2, 3))",
            "step 1, resize: expected a side or (height, width) as size, found (1, 2, 3)",
        ),
        (
            "resize(9, cubic)",
            "step 1, resize: expected one of bilinear, bicubic, lanczos, nearest as interpolation, \
             found \"cubic\"",
        ),
        (
            "resize(9, antialias=false)",
            "step 1, resize: expected no argument antialias, as antialiasing is always on, found one",
        ),
        (
            "resize((9, 9), max_size=10)",
            "step 1, resize: expected no max_size next to a height and a width, found both",
        ),
        (
            "resize(9, max_size=9)",
            "step 1, resize: expected a max_size above the size 9, up to 65535, found 9",
        ),
        (
            "random_resized_crop(9, scale=(0, 1))",
            "step 1, random_resized_crop: expected a scale above 0, up to 1, found (0.0, 1.0)",
        ),
        (
            "random_resized_crop(9, ratio=(2, 1))",
            "step 1, random_resized_crop: expected a ratio above 0, the smaller first, found (2.0, 1.0)",
        ),
        (
            "random_resized_crop(9, ratio=2)",
            "step 1, random_resized_crop: expected two numbers as ratio, found \"2\"",
        ),
        (
            "random_crop(9, padding=(1, 2, 3))",
            "step 1, random_crop: expected 1, 2 or 4 numbers as padding, found 3",
        ),
        ("pad(1, fill=256)", "step 1, pad: expected numbers of 0 to 255 as fill, found [256]"),
        ("pad(1, fill=(1, 2))", "step 1, pad: expected 1 or 3 numbers as fill, found 2"),
        ("color_jitter(-1)", "step 1, color_jitter: expected a brightness of 0 or more, found -1"),
        (
            "color_jitter(1e39)",
            "step 1, color_jitter: expected a brightness of 0 to 3.4028234663852886e38, the smaller first, \
             found (0, 1000000000000000000000000000000000000000)",
        ),
        (
            "color_jitter(hue=0.6)",
            "step 1, color_jitter: expected a hue within -0.5 to 0.5, the smaller first, found (-0.6, 0.6)",
        ),
        (
            "decode(rgba) | color_jitter(1)",
            "step 2, color_jitter: expected decode(rgb) or decode(gray) before it, found decode(rgba)",
        ),
        (
            "hflip | decode(gray)",
            "step 2, decode: expected it before all steps but seed, found it as step 2",
        ),
        ("hflip | seed(1)", "step 2, seed: expected it as the first step, found it as step 2"),
        ("to(f64)", "step 1, to: expected one of u8, f32, f16, bf16 as type, found \"f64\""),
        ("to(f32) | hflip", "step 2, hflip: expected it before to, found it after"),
        ("to(u8) | to(u8)", "step 2, to: expected it once, found it twice"),
        (
            "normalize(imagenet)",
            "step 1, normalize: expected to(f32), to(f16) or to(bf16) before it, found integers",
        ),
        (
            "to(u8) | normalize(imagenet)",
            "step 2, normalize: expected to(f32), to(f16) or to(bf16) before it, found integers",
        ),
        ("to(f32) | normalize(0.5, 0)", "step 2, normalize: expected a std that is not 0, found 0"),
        ("to(f32) | normalize(0.5)", "step 2, normalize: expected a std, found none"),
        (
            "decode(gray) | to(f32) | normalize(imagenet)",
            "step 3, normalize: expected 1 number as mean, found 3",
        ),
        (
            "gaussian_blur(4)",
            "step 1, gaussian_blur: expected an odd kernel_size of 1 to 1023, found 4",
        ),
        (
            "gaussian_blur(1025)",
            "step 1, gaussian_blur: expected an odd kernel_size of 1 to 1023, found 1025",
        ),
        ("gaussian_blur", "step 1, gaussian_blur: expected a kernel_size, found none"),
        (
            "gaussian_blur(3, sigma=0)",
            "step 1, gaussian_blur: expected a sigma above 0, the smaller first, found (0.0, 0.0)",
        ),
        (
            "gaussian_blur(3, sigma=inf)",
            "step 1, gaussian_blur: expected a number as sigma, found \"inf\"",
        ),
        (
            "random_erasing(scale=(0.5, 1.5))",
            "step 1, random_erasing: expected a scale of 0 to 1, the smaller first, found (0.5, 1.5)",
        ),
        (
            "random_erasing(value=random)",
            "step 1, random_erasing: expected whole numbers as value, found \"random\"",
        ),
        (
            "random_erasing(value=(1, 2))",
            "step 1, random_erasing: expected 1 or 3 numbers as value, found 2",
        ),
        ("rotate", "step 1, rotate: expected degrees, found none"),
        (
            "rotate(-3)",
            "step 1, rotate: expected a number of 0 or more, or a range, as degrees, found -3",
        ),
        (
            "rotate((0, 361))",
            "step 1, rotate: expected degrees within -360 to 360, the smaller first, found (0, 361)",
        ),
        (
            "rotate(9, bicubic)",
            "step 1, rotate: expected nearest or bilinear as interpolation, found bicubic",
        ),
        (
            "rotate(9, center=(1, 2))",
            "step 1, rotate: expected an argument, found \"center\"; there are degrees, \
             interpolation, expand, fill",
        ),
        (
            "affine(9, translate=(0.1, 2))",
            "step 1, affine: expected a translate of 0 to 1, found (0.1, 2.0)",
        ),
        (
            "affine(9, scale=(0, 1))",
            "step 1, affine: expected a scale above 0, the smaller first, found (0.0, 1.0)",
        ),
        (
            "affine(9, shear=(1, 2, 3))",
            "step 1, affine: expected 1, 2 or 4 numbers as shear, found (1, 2, 3)",
        ),
        (
            "affine(9, shear=91)",
            "step 1, affine: expected shear within -90 to 90, the smaller first, found (-91, 91)",
        ),
        (
            "decode(rgba) | grayscale",
            "step 2, grayscale: expected decode(rgb) or decode(gray) before it, found decode(rgba)",
        ),
        ("pad((1, (2)))", "step 1, pad: expected a value of padding, found \"(1, (2))\""),
        ("hflip(,)", "step 1, hflip: expected a value of p, found \"\""),
        ("pad((1)", "step 1, pad: expected matching parentheses, found \"(1\""),
    ];
    for (text, expected) in table {
        let error = text.parse::<Pipeline>().unwrap_err();
        assert_eq!((error.message(), error.kind()), (expected, ErrorKind::Invalid), "{text}");
    }
}

/// As in Python, a comma may stand behind the last argument.
#[test]
fn commas_at_the_end() {
    for (text, other) in [("resize(5,)", "resize(5)"), ("pad((1, 2,), 3, )", "pad((1, 2), fill=3)")]
    {
        assert_eq!(text.parse::<Pipeline>().unwrap(), other.parse().unwrap());
    }
    for wrong in ["resize(,)", "resize(5,,)", "resize(,5)"] {
        assert!(wrong.parse::<Pipeline>().is_err(), "{wrong}");
    }
}

/// Steps that are given as values are printed, and what is printed has to be parsed.
#[test]
fn no_pipeline_is_longer_than_what_is_parsed() {
    let steps = |count| Pipeline::new(std::iter::repeat_n(Step::hflip(), count));
    let longest = steps(8176).unwrap().with_seed(u64::MAX).with_max_pixels(u64::MAX);
    assert_eq!(longest.to_string().parse::<Pipeline>().unwrap(), longest);
    let error = steps(8177).unwrap_err();
    assert_eq!(error.to_string(), "expected steps of up to 65408 bytes as text, found 65416");
}

#[test]
fn bfloat16_is_rounded_once() {
    let image = png(9, 7);
    let run = |text: &str| text.parse::<Pipeline>().unwrap();
    let steps = "hflip(1) | to(f32, chw) | normalize(imagenet)";
    let (mut whole, mut half) = (Vec::new(), Vec::new());
    let mut rng = StableRng::new(&[]);
    Worker::<f32>::new(run(steps)).unwrap().run(&image, &mut rng, &mut whole).unwrap();
    let pipeline = run(&steps.replace("f32", "bf16"));
    assert_eq!(pipeline.to_string(), "hflip(1) | to(bf16, chw) | normalize(imagenet)");
    Worker::<u16>::new(pipeline).unwrap().run(&image, &mut rng, &mut half).unwrap();
    let expected: Vec<u16> =
        whole.iter().map(|value| half::bf16::from_f32(*value).to_bits()).collect();
    assert_eq!(half, expected);
    let error = Worker::<half::f16>::new(run("to(bf16)")).unwrap_err().to_string();
    assert_eq!(
        error,
        "expected a pipeline that ends with to(f16), for float16, found one that makes bf16"
    );
}

#[test]
fn shapes() {
    for (text, shape) in [
        ("", None),
        ("resize(224)", None),
        ("resize(224) | hflip", None),
        ("center_crop(224)", Some([224, 224, 3])),
        ("center_crop(224) | resize(9)", Some([9, 9, 3])),
        ("center_crop((2, 4)) | resize(9)", None),
        ("decode(gray) | random_crop((8, 9)) | pad((1, 2)) | to(u8, chw)", Some([1, 12, 11])),
        ("decode(rgba) | resize((8, 9))", Some([8, 9, 4])),
        ("center_crop(8) | rotate(9) | affine(9) | gaussian_blur(3)", Some([8, 8, 3])),
        ("center_crop(8) | rotate(9, expand=true)", None),
    ] {
        assert_eq!(pipeline(text).shape(), shape, "{text}");
    }
    assert_eq!(pipeline("decode(gray)").with_mode(Mode::Rgb).unwrap(), pipeline(""));
    assert!(pipeline("color_jitter(1)").with_mode(Mode::Rgba).is_err());
}

/// What is drawn for a seed never changes: recipes and runs that resume depend on it.
#[test]
fn draws_are_frozen() {
    let text = "random_resized_crop(224) | hflip | color_jitter(0.4, 0.4, 0.4, 0.1) \
                | pad(4) | random_crop(224) | vflip";
    let pipeline = pipeline(text);
    let plans: Vec<String> = (0..6)
        .map(|position| {
            let rng = &mut StableRng::new(&[0x7265_636f_7264, 42, 0, position]);
            pipeline.plan(&Header::new(500, 375), rng).unwrap().to_string()
        })
        .collect();
    assert_eq!(plans, FROZEN);
}

const FROZEN: [&str; 6] = [
    "crop(top=62, left=106, height=296, width=352) | resize(224, 224) \
     | contrast(0.6269) | hue(0.0991) | saturation(0.7929) | brightness(1.2157) \
     | pad(4, fill=0) | crop(top=8, left=4, height=224, width=224) | vflip",
    "crop(top=133, left=166, height=223, width=271) | resize(224, 224) | hflip \
     | hue(-0.0236) | saturation(0.6954) | contrast(1.2169) | brightness(1.0098) \
     | pad(4, fill=0) | crop(top=6, left=2, height=224, width=224)",
    "crop(top=2, left=121, height=324, width=300) | resize(224, 224) | hflip \
     | brightness(0.9059) | saturation(1.3574) | contrast(0.9786) | hue(0.0324) \
     | pad(4, fill=0) | crop(top=1, left=3, height=224, width=224) | vflip",
    "crop(top=17, left=60, height=356, width=294) | resize(224, 224) | hflip \
     | brightness(0.6485) | hue(0.0496) | saturation(1.0807) | contrast(1.3062) \
     | pad(4, fill=0) | crop(top=7, left=2, height=224, width=224)",
    "crop(top=53, left=109, height=301, width=247) | resize(224, 224) \
     | contrast(0.9974) | hue(0.0975) | saturation(0.7267) | brightness(1.0760) \
     | pad(4, fill=0) | crop(top=6, left=5, height=224, width=224)",
    "crop(top=75, left=122, height=289, width=224) | resize(224, 224) | hflip \
     | hue(-0.0803) | brightness(1.2011) | contrast(0.7705) | saturation(1.2503) \
     | pad(4, fill=0) | crop(top=2, left=3, height=224, width=224) | vflip",
];

/// The same of steps that came later.
#[test]
fn later_draws_are_frozen() {
    let text = "grayscale(0.9) | gaussian_blur((5, 9), (0.5, 3)) | random_erasing(0.6, value=(1, 2, 3)) \
                | rotate((-30, 60), bilinear, true, 7) | affine(15, (0.1, 0.2), (0.8, 1.2), (-5, 5, -3, 3))";
    let pipeline = pipeline(text);
    let plans: Vec<String> = (0..4)
        .map(|position| {
            let rng = &mut StableRng::new(&[0x7265_636f_7264, 42, 0, position]);
            let plan = pipeline.plan(&Header::new(500, 375), rng).unwrap();
            let json = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<kiste::image::Plan>(&json).unwrap(), plan);
            plan.to_string()
        })
        .collect();
    assert_eq!(plans, FROZEN_LATER);
}

const FROZEN_LATER: [&str; 4] = [
    "grayscale \
     | gaussian_blur((5, 9), sigma=2.4944) \
     | rotate(34.3211, bilinear, expand, fill=7) \
     | affine(7.3531, translate=(-61, 111), scale=0.9591, shear=(2.6961, -2.7982), nearest, fill=0)",
    "grayscale \
     | gaussian_blur((5, 9), sigma=1.2373) \
     | erase(top=13, left=58, height=357, width=147, value=(1, 2, 3, 1)) \
     | rotate(-23.7540, bilinear, expand, fill=7) \
     | affine(3.4832, translate=(47, 3), scale=1.1085, shear=(-3.8078, -0.7095), nearest, fill=0)",
    "gaussian_blur((5, 9), sigma=1.3725) \
     | erase(top=171, left=88, height=93, width=269, value=(1, 2, 3, 1)) \
     | rotate(42.0194, bilinear, expand, fill=7) \
     | affine(-3.5470, translate=(22, -29), scale=0.9893, shear=(4.4676, 0.9711), nearest, fill=0)",
    "grayscale \
     | gaussian_blur((5, 9), sigma=0.9172) \
     | rotate(-3.5607, bilinear, expand, fill=7) \
     | affine(-3.6723, translate=(0, 68), scale=1.1537, shear=(-4.3940, 2.2962), nearest, fill=0)",
];

#[test]
fn images_too_small_or_too_large() {
    let rng = || StableRng::new(&[]);
    for (text, width, height, kind, expected) in [
        (
            "random_crop(32)",
            31,
            40,
            ErrorKind::Invalid,
            "random_crop: expected an image of 32 × 32 or more, found 31 × 40",
        ),
        (
            "pad(9, padding_mode=reflect)",
            9,
            20,
            ErrorKind::Invalid,
            "pad: expected a border that reflect can fill around 9 × 20, found 9",
        ),
        (
            "decode(max_pixels=99)",
            10,
            10,
            ErrorKind::Limit,
            "expected at most 99 pixels, found 10 × 10",
        ),
        (
            "resize(60000)",
            10,
            10,
            ErrorKind::Limit,
            "resize: expected at most 200000000 pixels, found 60000 × 60000",
        ),
        (
            "decode(max_pixels=150) | pad(2)",
            10,
            10,
            ErrorKind::Limit,
            "pad: expected at most 150 pixels, found 14 × 14",
        ),
        (
            "gaussian_blur(21)",
            10,
            11,
            ErrorKind::Invalid,
            "gaussian_blur: expected a kernel_size for an image of 10 × 11, found (21, 21)",
        ),
        (
            "decode(max_pixels=150) | rotate((45, 45), expand=true)",
            10,
            10,
            ErrorKind::Limit,
            "rotate: expected at most 150 pixels, found 16 × 16",
        ),
        ("resize(1)", 0, 10, ErrorKind::Invalid, "expected an image, found one without pixels"),
    ] {
        let error = pipeline(text).plan(&Header::new(width, height), &mut rng()).unwrap_err();
        assert_eq!((error.message(), error.kind()), (expected, kind), "{text}");
    }
    let plan =
        pipeline("random_crop(32, pad_if_needed=true)").plan(&Header::new(30, 40), &mut rng());
    assert_eq!(plan.unwrap().size, Size::square(32));
}
