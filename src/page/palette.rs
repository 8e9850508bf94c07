//! Whether layers that lie on each other can be told apart by all readers: colors of the style sheet, seen with each kind of
//! color blindness (Machado, Oliveira and Fernandes 2009, full strength), in light and dark.

use crate::page::{SCRIPTS, STYLE};

type ColorVector = [f64; 3];

const VISION_MATRICES: [(&str, [ColorVector; 3]); 4] = [
    ("all colors", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "no red",
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
    ),
    (
        "no green",
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ),
    (
        "no blue",
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ),
];

/// Differences of lightness and hue below this are hard to see side by side.
const MIN_COLOR_DISTANCE: f64 = 14.0;

fn linear_rgb(hex: &str) -> ColorVector {
    std::array::from_fn(|at| {
        let value = u8::from_str_radix(&hex[1 + 2 * at..3 + 2 * at], 16).unwrap();
        let share = f64::from(value) / 255.0;
        if share <= 0.04045 {
            share / 12.92
        } else {
            ((share + 0.055) / 1.055).powf(2.4)
        }
    })
}

fn multiply(matrix: &[ColorVector; 3], color: ColorVector) -> ColorVector {
    matrix.map(|row| std::iter::zip(row, color).map(|(a, b)| a * b).sum())
}

/// CIE Lab.
fn to_lab(color: ColorVector) -> ColorVector {
    let xyz = multiply(
        &[
            [0.4124, 0.3576, 0.1805],
            [0.2126, 0.7152, 0.0722],
            [0.0193, 0.1192, 0.9505],
        ],
        color.map(|part| part.clamp(0.0, 1.0)),
    );
    let [x, y, z] = [xyz[0] / 0.95047, xyz[1], xyz[2] / 1.08883].map(|part| {
        if part > 0.008856 {
            part.cbrt()
        } else {
            7.787 * part + 16.0 / 116.0
        }
    });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// The layers in the order in which they lie on each other.
fn layers() -> Vec<String> {
    let script = SCRIPTS.join("\n");
    let list = script
        .split("const LAYERS = [")
        .nth(1)
        .unwrap()
        .split(']')
        .next()
        .unwrap();
    let names = list.split(',').map(|name| name.trim().trim_matches('"').to_owned());
    names.collect()
}

fn layer_colors(layer: &str) -> [String; 2] {
    let pair = STYLE.split(&format!("--c-{layer}: light-dark(")).nth(1).unwrap();
    let mut pair = pair.split(')').next().unwrap().split(", ").map(str::to_owned);
    [pair.next().unwrap(), pair.next().unwrap()]
}

#[test]
fn layers_that_touch_can_be_told_apart_by_all_readers() {
    let layers = layers();
    assert_eq!(layers.len(), 12);
    for pair in layers.windows(2) {
        let (low, high) = (layer_colors(&pair[0]), layer_colors(&pair[1]));
        for (name, eyes) in &VISION_MATRICES {
            for scheme in 0..2 {
                let [low, high] = [&low[scheme], &high[scheme]].map(|hex| to_lab(multiply(eyes, linear_rgb(hex))));
                let apart = std::iter::zip(low, high)
                    .map(|(a, b)| (a - b).powi(2))
                    .sum::<f64>()
                    .sqrt();
                assert!(apart >= MIN_COLOR_DISTANCE, "{pair:?} with {name}: {apart:.0}");
            }
        }
    }
}
