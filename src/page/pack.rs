//! Compact encodings for the page: columns of differences as bytes, rows as columns. `assets/data.js` decodes them.

use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use table::{Sheet, column_to_json};

/// Text columns with fewer distinct values than this share of their rows are written as numbers of a list.
const MIN_REPEAT_RATIO: usize = 2;

/// A column of numbers. Every number is told as the difference from the one before that is known: 0 is a missing number,
/// 1 is a run of numbers that stay (its length follows), anything else the difference, its sign in the lowest bit, plus 1.
pub fn pack_column(values: impl IntoIterator<Item = Option<i64>>, out: &mut Vec<u8>) {
    let (mut last, mut stays) = (0_i64, 0_u64);
    let flush = |stays: &mut u64, out: &mut Vec<u8>| {
        if *stays > 0 {
            write_varint(1, out);
            write_varint(*stays, out);
            *stays = 0;
        }
    };
    for value in values {
        match value {
            Some(value) if value == last => stays += 1,
            Some(value) => {
                flush(&mut stays, out);
                let difference = value.wrapping_sub(last);
                let folded = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
                write_varint(folded.saturating_add(1), out);
                last = value;
            }
            None => {
                flush(&mut stays, out);
                write_varint(0, out);
            }
        }
    }
    flush(&mut stays, out);
}

/// Seven bits a byte, the lowest first.
fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Rows as columns: `{"rows": 3, "columns": {"name": [...]}}`. A column that is the same in all rows is `{"all": value}`; one
/// of few texts is `{"of": [...], "at": [...]}`.
pub fn rows_to_columns(rows: &[Json], leave_out: &[&str]) -> Json {
    let mut names = Vec::<&str>::new();
    for (name, _) in rows.iter().filter_map(Json::as_object).flatten() {
        if !names.contains(&name.as_str()) && !leave_out.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let packed = names.iter().map(|name| {
        let cells = rows.iter().map(|row| &row[*name]).collect::<Vec<_>>();
        ((*name).to_owned(), pack_values(&cells))
    });
    json!({"rows": rows.len(), "columns": packed.collect::<Map<_, _>>()})
}

/// A column: its name, and how to get its value from a row.
pub type PackedField<'n, R> = (&'n str, fn(&R) -> Json);

/// Rows as columns, as [`rows_to_columns`] gives them, one column at a time: there may be many rows.
pub fn pack_columns<'r, R: 'r>(rows: impl Iterator<Item = &'r R> + Clone, fields: &[PackedField<'_, R>]) -> Json {
    let packed = fields.iter().map(|(name, value)| {
        let cells = rows.clone().map(value).collect::<Vec<_>>();
        ((*name).to_owned(), pack_values(&cells.iter().collect::<Vec<_>>()))
    });
    json!({"rows": rows.clone().count(), "columns": packed.collect::<Map<_, _>>()})
}

/// The rows of a sheet as [`rows_to_columns`] gives them, one column at a time. `look` sees the name and the cells of each.
pub fn sheet_to_columns<R>(sheet: &Sheet<'_, R>, mut look: impl FnMut(&str, &[Json])) -> Json {
    let packed = sheet.columns.iter().map(|column| {
        let cells = column_to_json(column, sheet.rows);
        look(column.name, &cells);
        (column.name.to_owned(), pack_values(&cells.iter().collect::<Vec<_>>()))
    });
    let columns = match sheet.rows.is_empty() {
        true => Map::new(),
        false => packed.collect(),
    };
    json!({"rows": sheet.rows.len(), "columns": columns})
}

fn pack_values(cells: &[&Json]) -> Json {
    if let Some(first) = cells.first().filter(|first| cells.iter().all(|cell| cell == *first)) {
        return json!({"all": first});
    }
    if cells.iter().any(|cell| cell.is_string()) {
        let mut numbers = BTreeMap::<String, usize>::new();
        let mut list = Vec::new();
        let at = cells.iter().map(|cell| {
            *numbers.entry(cell.to_string()).or_insert_with(|| {
                list.push((*cell).clone());
                list.len() - 1
            })
        });
        let at = at.collect::<Vec<_>>();
        if list.len() * MIN_REPEAT_RATIO < cells.len() {
            return json!({"of": list, "at": at});
        }
    }
    cells.iter().map(|cell| (*cell).clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the page does to read a column.
    fn read(bytes: &[u8], count: usize) -> Vec<Option<i64>> {
        let mut at = 0;
        let mut next = || {
            let (mut value, mut shift) = (0_u64, 0);
            loop {
                let byte = bytes[at];
                at += 1;
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        };
        let (mut last, mut values) = (0_i64, Vec::new());
        while values.len() < count {
            match next() {
                0 => values.push(None),
                1 => {
                    let stays = next() as usize;
                    values.extend(std::iter::repeat_n(Some(last), stays));
                }
                told => {
                    let folded = told - 1;
                    last = last.wrapping_add((folded >> 1).cast_signed() ^ -((folded & 1).cast_signed()));
                    values.push(Some(last));
                }
            }
        }
        values
    }

    proptest! {
        #[test]
        fn columns_come_back(values in prop::collection::vec(prop::option::of(-1_000_000_i64..1_000_000), 0..60)) {
            let mut bytes = Vec::new();
            pack_column(values.iter().copied(), &mut bytes);
            prop_assert_eq!(read(&bytes, values.len()), values);
        }
    }

    #[test]
    fn what_stays_costs_next_to_nothing() {
        let mut bytes = Vec::new();
        pack_column(vec![Some(200_000); 5_000], &mut bytes);
        assert!(bytes.len() < 8, "{}", bytes.len());
    }

    #[test]
    fn rows_become_columns() {
        let row = |name: &str, tokens: u64| json!({"name": name, "tokens": tokens, "version": 1});
        let rows = [row("a", 1), row("b", 2), row("a", 3), row("a", 4), row("b", 5)];
        let expected = json!({"rows": 5, "columns": {
            "name": {"of": ["a", "b"], "at": [0, 1, 0, 0, 1]},
            "tokens": [1, 2, 3, 4, 5],
        }});
        assert_eq!(rows_to_columns(&rows, &["version"]), expected);
        let fields: [PackedField<'_, Json>; 2] = [
            ("name", |row| row["name"].clone()),
            ("tokens", |row| row["tokens"].clone()),
        ];
        assert_eq!(pack_columns(rows.iter(), &fields), expected);
        assert_eq!(rows_to_columns(&rows, &[])["columns"]["version"], json!({"all": 1}));
    }
}
