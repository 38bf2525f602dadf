//! Blurs, erased parts and turns: what goldens do not reach.

use kiste::image::{Action, ArrayImage, Header, Interpolation, Pipeline, Plan, Size, Worker};
use kiste::sampler::rng::StableRng;

fn plan(text: &str, header: &Header) -> Plan {
    let pipeline: Pipeline = text.parse().unwrap();
    pipeline.plan(header, &mut StableRng::new(&[])).unwrap()
}

/// The number of each pixel in two channels, and none in the third.
fn numbered(height: usize, width: usize) -> Vec<u8> {
    (0..height * width).flat_map(|at| [(at >> 8) as u8, at as u8, 0]).collect()
}

/// Of nearest pixels a mask has to be the same picture, and a box around a pixel has to hold it.
#[test]
fn masks_follow_turns() {
    let (height, width) = (23, 31);
    let pixels = numbered(height, width);
    let image = ArrayImage::new(&[height, width, 3], &pixels).unwrap();
    let mask: Vec<u16> = (0..(height * width) as u16).collect();
    let text = "pad(3, fill=255) | rotate(180, expand=true, fill=255) | hflip | random_crop(20) \
                | rotate((90, 90), fill=255) | affine(50, (0.2, 0.2), (0.5, 1.5), 20, fill=255) \
                | random_erasing(0) | gaussian_blur(1) | resize((33, 21), nearest) | vflip \
                | rotate((-90, -90), expand=true, fill=255) | center_crop(40)";
    let pipeline: Pipeline = text.parse().unwrap();
    let mut worker = Worker::<u8>::new(pipeline.clone()).unwrap();
    let mut out = Vec::new();
    for seed in 0..30 {
        let plan = pipeline.plan(&image.header(), &mut StableRng::new(&[seed])).unwrap();
        worker.carry_out_array(&image, &plan, &mut out).unwrap();
        let found = plan.move_mask(&mask, u16::MAX).unwrap();
        assert_eq!(found.len() * 3, out.len());
        for (at, (value, pixel)) in found.iter().zip(out.chunks_exact(3)).enumerate() {
            // The border of `center_crop` is black in the picture.
            let of_pixel = u16::from_be_bytes([pixel[0], pixel[1]]);
            let is_border = *value == u16::MAX && of_pixel == 0;
            assert!(*value == of_pixel || is_border, "{plan} {at}: {value} {of_pixel}");
        }
    }
}

#[test]
fn values_of_channels() {
    let image = ArrayImage::new(&[1, 1, 3], &[9, 9, 9]).unwrap();
    let mut out = Vec::new();
    for (text, expected) in [
        ("pad(1) | random_erasing(1, (0.2, 0.2), (1, 1), (1, 2, 3))", [1, 2, 3]),
        ("rotate((45, 45), nearest, true, (1, 2, 3))", [1, 2, 3]),
        ("pad(1) | rotate((45, 45), bilinear, true, (1, 2, 3))", [1, 2, 3]),
    ] {
        let mut worker = Worker::<u8>::new(text.parse().unwrap()).unwrap();
        worker.run_array(&image, &mut StableRng::new(&[1]), &mut out).unwrap();
        assert!(out.chunks_exact(3).any(|pixel| pixel == expected), "{text}: {out:?}");
    }
}

/// Numbers that no pipeline draws: an error, or pixels.
#[test]
fn plans_from_anywhere() {
    let image = ArrayImage::new(&[3, 4, 3], &[7; 36]).unwrap();
    let mut worker = Worker::<u8>::new(Pipeline::default()).unwrap();
    let mut out = Vec::new();
    let (interpolation, fill) = (Interpolation::Bilinear, [0; 4]);
    let affine = |angle: f64, scale: f64, shear: f64| Action::Affine {
        angle,
        translate: [i32::MAX, i32::MIN],
        scale,
        shear: [shear, shear],
        interpolation,
        fill,
    };
    let rotate = |angle: f64, interpolation: Interpolation, expand: bool| Action::Rotate {
        angle,
        interpolation,
        expand,
        fill,
    };
    let blur = |columns: u32, rows: u32, sigma: f64| Action::GaussianBlur {
        kernel_size: [columns, rows],
        sigma,
    };
    let erase = |top: u32, height: u32| Action::Erase {
        top,
        left: 0,
        size: Size { height, width: 1 },
        value: fill,
    };
    for (action, is_done) in [
        (affine(1e300, f64::MIN_POSITIVE, 90.0), true),
        (affine(0.0, f64::MAX, -90.0), true),
        (affine(f64::NAN, 1.0, 0.0), false),
        (affine(0.0, 0.0, 0.0), false),
        (affine(0.0, -1.0, 0.0), false),
        (affine(0.0, f64::INFINITY, 0.0), false),
        (affine(0.0, 1.0, f64::NEG_INFINITY), false),
        (rotate(1e308, Interpolation::Nearest, true), true),
        (rotate(-1e-300, Interpolation::Bilinear, true), true),
        (rotate(f64::INFINITY, Interpolation::Nearest, true), false),
        (rotate(f64::NAN, Interpolation::Nearest, false), false),
        (rotate(1.0, Interpolation::Lanczos, false), false),
        (blur(1, 1, 1.0), true),
        (blur(7, 5, f64::MIN_POSITIVE), true),
        (blur(7, 5, f64::MAX), true),
        (blur(9, 5, 1.0), false),
        (blur(7, 7, 1.0), false),
        (blur(0, 1, 1.0), false),
        (blur(2, 1, 1.0), false),
        (blur(u32::MAX, 1, 1.0), false),
        (blur(3, 3, 0.0), false),
        (blur(3, 3, f64::NAN), false),
        (erase(0, 3), true),
        (erase(0, 4), false),
        (erase(u32::MAX, 2), false),
        (erase(0, 0), false),
    ] {
        let mut plan = plan("", &image.header());
        plan.actions = vec![action];
        let done = worker.carry_out_array(&image, &plan, &mut out);
        assert_eq!(done.is_ok(), is_done, "{action}: {done:?}");
        if let Ok([height, width, _]) = done {
            plan.size = Size { height: height as u32, width: width as u32 };
            assert_eq!(plan.move_mask(&[1u8; 12], 0).unwrap().len(), height * width, "{action}");
            plan.move_boxes(&mut [[0.0, 1.0, 2.0, 3.0], [f64::NAN; 4]]).unwrap();
        }
    }
}

/// What is blurred by a curve without width stays, and by a flat one becomes the mean.
#[test]
fn the_widest_and_the_narrowest_blur() {
    let pixels = numbered(5, 7);
    let image = ArrayImage::new(&[5, 7, 3], &pixels).unwrap();
    let mut out = Vec::new();
    let mut run = |sigma: f64| {
        let text = format!("gaussian_blur(3, sigma={sigma})");
        let mut worker = Worker::<u8>::new(text.parse().unwrap()).unwrap();
        worker.run_array(&image, &mut StableRng::new(&[]), &mut out).unwrap();
        out.clone()
    };
    assert_eq!(run(1e-9), pixels);
    // In the middle neighbours cancel each other.
    assert_eq!(run(1e9)[3 * (7 + 1)..][..3], pixels[3 * (7 + 1)..][..3]);
}

/// A turn by whole quarters is free before pixels are decoded, also of a picture that is stored turned.
#[test]
fn quarters_and_orientations() {
    for orientation in 1..=8 {
        let header = Header::new(31, 23).with_orientation(orientation);
        for quarter in -4..=4i32 {
            let angle = 90 * quarter;
            let turned = plan(&format!("rotate(({angle}, {angle}), expand=true)"), &header);
            let mask: Vec<u16> = (0..31 * 23).collect();
            let mut expected = plan("", &header).move_mask(&mask, 0).unwrap();
            let (mut high, mut wide) = match orientation {
                5..=8 => (31, 23),
                _ => (23, 31),
            };
            for _ in 0..quarter.rem_euclid(4) {
                expected = (0..wide)
                    .rev()
                    .flat_map(|x| (0..high).map(move |y| (x, y)))
                    .map(|(x, y)| expected[y * wide + x])
                    .collect();
                (high, wide) = (wide, high);
            }
            assert_eq!(turned.size, Size { height: high as u32, width: wide as u32 });
            assert_eq!(turned.move_mask(&mask, 0).unwrap(), expected, "{orientation} {angle}");
            if orientation == 1 && quarter == 1 {
                let mut boxes = [[1.0, 2.0, 5.0, 9.0]];
                turned.move_boxes(&mut boxes).unwrap();
                let expected = [2.0, 26.0, 9.0, 30.0];
                assert!(boxes[0].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9));
            }
        }
    }
}
