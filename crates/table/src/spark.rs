//! One-line drawings: a sparkline for a series of values, a bar for a share.

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a series of values in at most `width` marks, scaled from zero to the largest. A mark that stands for several values
/// shows their maximum, so that no peak is lost. Fewer values than marks get one mark each.
pub fn sparkline(values: &[u64], width: usize) -> String {
    let largest = values.iter().copied().max().unwrap_or(0);
    let marks = values.len().min(width);
    let mark = |at: usize| {
        let (start, end) = (at * values.len() / marks, (at + 1) * values.len() / marks);
        let value = values[start..end].iter().copied().max().unwrap_or(0);
        let level = match largest {
            0 => 0,
            _ => (u128::from(value) * 8).div_ceil(u128::from(largest)).max(1) as usize - 1,
        };
        LEVELS[level.min(7)]
    };
    (0..marks).map(mark).collect()
}

/// Draws a share as a bar of at most `width` marks, with a precision of an eighth. Every share above zero is visible.
pub fn bar(share: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let eighths = eighths.max(usize::from(share > 0.0));
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_keeps_its_peaks() {
        assert_eq!(sparkline(&[], 8), "");
        assert_eq!(sparkline(&[0, 0], 8), "▁▁");
        assert_eq!(sparkline(&[1, 2, 3, 4, 5, 6, 7, 8], 8), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[1, 1, 1, 100, 1, 1], 3), "▁█▁");
        assert_eq!(sparkline(&[u64::MAX, 1], 5), "█▁");
        assert_eq!(sparkline(&[5, 5, 5], 2), "██");
    }

    #[test]
    fn a_bar_shows_every_share_above_zero() {
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(7.0, 4), "████");
        assert_eq!(bar(0.0001, 4), "▏");
        assert_eq!(bar(0.6, 4), "██▍");
    }
}
