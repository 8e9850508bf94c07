//! Quantiles by the nearest-rank rule. Every median and percentile of the program is computed here.

/// Returns the value at `share` (0 to 1) of a sorted list by nearest rank; `None` if the list is empty.
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Sorts the list and returns its median by nearest rank; `None` if the list is empty.
pub fn median<T: Ord + Copy>(mut list: Vec<T>) -> Option<T> {
    list.sort_unstable();
    quantile(&list, 0.5)
}
