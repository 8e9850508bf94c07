//! Small forms for reports, of which there may be very many: texts that are stored once for all of them, and values that few
//! of them have.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

/// A text that reports share: the name of a model, a folder, a branch.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct SharedText(Arc<str>);

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> SharedText {
        SharedText(text.into())
    }
}

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SharedText, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(SharedText(text.into()))
    }
}

/// The texts that reports share.
#[derive(Default)]
pub struct TextPool(Mutex<HashSet<Arc<str>>>);

impl TextPool {
    /// Makes equal texts the same text.
    pub fn share<'t>(&self, texts: impl Iterator<Item = &'t mut SharedText>) {
        // A thread that panicked while it held the pool leaves texts that are not shared.
        let Ok(mut pool) = self.0.lock() else { return };
        for text in texts {
            match pool.get(&text.0) {
                Some(known) => text.0 = Arc::clone(known),
                None => {
                    pool.insert(Arc::clone(&text.0));
                }
            }
        }
    }
}

/// A value that is mostly its default, and then takes no room of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sparse<T>(Option<Box<T>>);

impl<T: Default + PartialEq> From<T> for Sparse<T> {
    fn from(value: T) -> Sparse<T> {
        Sparse((value != T::default()).then(|| Box::new(value)))
    }
}

impl<T> Sparse<T> {
    /// Returns the value; `None` if it is the default.
    pub fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

impl<T: Default> Sparse<T> {
    /// Takes the value and leaves the default.
    pub fn take(&mut self) -> T {
        self.0.take().map_or_else(T::default, |value| *value)
    }
}

impl<T: Copy + Default> Sparse<T> {
    /// Returns a copy of the value.
    pub fn value(&self) -> T {
        self.get().copied().unwrap_or_default()
    }
}

impl<T> Sparse<Vec<T>> {
    /// Returns the items.
    pub fn items(&self) -> &[T] {
        self.get().map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_stored_once() {
        let pool = TextPool::default();
        let mut texts = ["opus", "main", "opus"].map(SharedText::from);
        pool.share(texts.iter_mut());
        assert!(Arc::ptr_eq(&texts[0].0, &texts[2].0));
        assert_eq!([&*texts[0], &*texts[1]], ["opus", "main"]);
    }

    #[test]
    fn a_default_takes_no_room() {
        let none = Sparse::from(Vec::<u64>::new());
        assert!(none.get().is_none() && none.items().is_empty());
        let mut some = Sparse::from(vec![1, 2]);
        assert_eq!(some.items(), [1, 2]);
        assert_eq!((some.take(), some.get()), (vec![1, 2], None));
        assert_eq!(Sparse::from(7).value() + Sparse::<i32>::default().value(), 7);
    }
}
