//! Colours of pixels, changed as torchvision changes integer pixels: each action rounds down.

/// Values multiplied by a factor.
pub(super) fn brightness(factor: f64) -> [u8; 256] {
    let factor = factor as f32;
    table(|value| value * factor)
}

/// Values blended with a mean.
pub(super) fn contrast(factor: f64, mean: f32) -> [u8; 256] {
    let (factor, rest) = (factor as f32, (1.0 - factor) as f32);
    table(|value| blend(value, factor, f64::from(mean) * f64::from(rest)))
}

/// A value times a factor, plus a product that is not rounded before: torch adds it in one instruction.
fn blend(value: f32, factor: f32, other: f64) -> f32 {
    (f64::from(value * factor) + other) as f32
}

fn table(new: impl Fn(f32) -> f32) -> [u8; 256] {
    std::array::from_fn(|value| new(value as f32).clamp(0.0, 255.0) as u8)
}

/// A number of 0 or more, rounded down. Older processors call a function for `floor` and `%`.
fn whole(number: f32) -> f32 {
    number as i32 as f32
}

/// The brightness of a colour, as torchvision computes it.
fn gray(r: u8, g: u8, b: u8) -> f32 {
    whole(f32::from(r) * 0.2989 + f32::from(g) * 0.587 + f32::from(b) * 0.114)
}

/// The brightness of each pixel in all its channels.
pub(super) fn grayscale(row: &mut [u8]) {
    // A product is not rounded before it is added: torch does both in one instruction here.
    let plus = |sum: f32, value: u8, part: f32| {
        (f64::from(value) * f64::from(part) + f64::from(sum)) as f32
    };
    for pixel in row.chunks_exact_mut(3) {
        let [r, g, b] = [pixel[0], pixel[1], pixel[2]];
        pixel.fill(plus(plus(f32::from(r) * 0.2989, g, 0.587), b, 0.114) as u8);
    }
}

/// The mean brightness of all pixels.
pub(super) fn mean_gray<'a>(rows: impl Iterator<Item = &'a [u8]>, channels: usize) -> f32 {
    let (mut sum, mut count) = (0u64, 0u64);
    for row in rows {
        for pixel in row.chunks_exact(channels) {
            sum += match *pixel {
                [r, g, b] => gray(r, g, b) as u64,
                _ => u64::from(pixel[0]),
            };
            count += 1;
        }
    }
    (sum as f64 / count.max(1) as f64) as f32
}

/// Each value blended with the brightness of its pixel.
pub(super) fn saturation(row: &mut [u8], factor: f64) {
    let (factor, rest) = (factor as f32, f64::from((1.0 - factor) as f32));
    for pixel in row.chunks_exact_mut(3) {
        let other = f64::from(gray(pixel[0], pixel[1], pixel[2])) * rest;
        for value in pixel {
            *value = blend(f32::from(*value), factor, other).clamp(0.0, 255.0) as u8;
        }
    }
}

/// The hue turned by a part of the colour circle.
pub(super) fn hue(row: &mut [u8], turn: f64) {
    let turn = turn as f32;
    for pixel in row.chunks_exact_mut(3) {
        let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(|v| f32::from(v) * (1.0 / 255.0));
        let (low, high) = (r.min(g).min(b), r.max(g).max(b));
        let (range, is_gray) = (high - low, high == low);
        let saturation = if is_gray { 0.0 } else { range / high };
        let divisor = if is_gray { 1.0 } else { range };
        let [rc, gc, bc] = [r, g, b].map(|value| (high - value) / divisor);
        let sextant = if high == r {
            bc - gc
        } else if high == g {
            2.0 + rc - bc
        } else {
            4.0 + gc - rc
        };
        let hue = sextant * (1.0 / 6.0) + 1.0;
        // From -0.5 up to 1.5.
        let turned = hue - whole(hue) + turn;
        let turned = if turned < 0.0 { turned + 1.0 } else { turned - whole(turned) };
        let sixfold = turned * 6.0;
        let side = whole(sixfold);
        let part = sixfold - side;
        let (sf, s1) = (saturation * part, 1.0 - saturation);
        let q = ((1.0 - sf) * high).clamp(0.0, 1.0);
        let t = ((sf + s1) * high).clamp(0.0, 1.0);
        let p = (s1 * high).clamp(0.0, 1.0);
        let rgb = match side as u8 % 6 {
            0 => [high, t, p],
            1 => [q, high, p],
            2 => [p, high, t],
            3 => [p, q, high],
            4 => [t, p, high],
            _ => [high, p, q],
        };
        for (to, value) in pixel.iter_mut().zip(rgb) {
            *to = (value * 255.999) as u8;
        }
    }
}
