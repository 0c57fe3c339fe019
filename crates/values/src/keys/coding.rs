//! How the keys of a slot are written down: a sequence of (key, value, expiry) in the order of scans. Members send it to each other and
//! keep it on disk, so it stays what it is, however the keys lie in memory.

use std::collections::VecDeque;
use std::fmt;
use std::hint::black_box;

use bytes::Bytes;
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Keys, Name};
use crate::item::{Loose, Seen};
use crate::value::Value;

/// Written in one go, where serde would take byte after byte.
struct Raw<'a>(&'a [u8]);

/// What is read. Postcard numbers the variants: new ones go to the end, here and in [`Seen`].
#[derive(Deserialize)]
enum Given<'a> {
    Text(&'a [u8]),
    List(VecDeque<Bytes>),
}

impl Serialize for Keys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_seq(Some(self.len()))?;
        for items in self.shelf.rows() {
            // They lie anywhere in memory: this way it is waited for together.
            black_box(items.clone().fold(0, |seen, item| seen ^ item.touch()));
            for item in items {
                all.serialize_element(&(Raw(item.key()), item.seen(), item.expires()))?;
            }
        }
        all.end()
    }
}

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl Serialize for Seen<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Seen::Text(text) => serializer.serialize_newtype_variant("Given", 0, "Text", &Raw(text)),
            Seen::List(items) => serializer.serialize_newtype_variant("Given", 1, "List", items),
        }
    }
}

impl<'de> Deserialize<'de> for Keys {
    /// Takes only what `serialize` makes of some keys: in order, none twice.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Keys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the keys of a slot")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Keys, A::Error> {
        let mut keys = Keys::default();
        while let Some((key, given, expires)) = access.next_element::<(&[u8], Given<'de>, Option<u64>)>()? {
            let name = Name::of(key);
            let in_order = keys.shelf.last().is_none_or(|last| last < name);
            let item = given.kept(key, expires).filter(|_| in_order);
            let item = item.ok_or_else(|| A::Error::custom("not the encoding of a slot's keys"))?;
            keys.note(name.place, item.as_ref());
            keys.shelf.push(name.place, item, access.size_hint().unwrap_or(0));
        }
        Ok(keys)
    }
}

impl Given<'_> {
    /// None: no value is like that.
    fn kept(self, key: &[u8], expires: Option<u64>) -> Option<Loose> {
        match self {
            Given::Text(text) => Some(Loose::of_text(key, expires, text)),
            Given::List(items) => (!items.is_empty()).then(|| Loose::of(key, expires, Value::List(items))),
        }
    }
}
