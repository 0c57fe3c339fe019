//! What a command answers. `resp` makes the bytes of RESP2 or RESP3 of it; here it is a value that sessions can remember.

use std::fmt;

use bytes::Bytes;
use serde::de::{self, DeserializeSeed, EnumAccess, SeqAccess, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// How deep replies may lie within each other. A few kilobytes of garbage could otherwise nest deep enough to overflow the stack
/// of whoever decodes them. No command answers anything near that.
pub const DEEPEST: u8 = 32;

/// Postcard numbers the variants: new ones go to the end, or old sessions change their meaning.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Reply {
    Ok,
    /// No value: `$-1`, in RESP3 `_`.
    Nil,
    /// A string of any bytes.
    Value(Bytes),
    Number(i64),
    Array(Vec<Reply>),
    /// Its whole text, with the word in capitals that it begins with, without the dash. Never has a line end.
    Error(Bytes),
    /// A short status other than OK. Never has a line end.
    Simple(Bytes),
    /// No array: `*-1` in RESP2, in RESP3 like `Nil`.
    NilArray,
    Double(Double),
    /// 1 and 0 in RESP2.
    Boolean(bool),
    /// Pairs; in RESP2 a flat array of them.
    Map(Vec<(Reply, Reply)>),
    /// Without order; in RESP2 an array.
    Set(Vec<Reply>),
    /// Text for people; a plain value in RESP2.
    Verbatim(Bytes),
    /// What a client did not ask for now; an array in RESP2.
    Push(Vec<Reply>),
    /// A whole number of any size, in digits; a plain value in RESP2.
    BigNumber(Bytes),
}

/// A floating point number as its bits: equal bytes for equal values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Double(u64);

impl Double {
    #[must_use]
    pub fn new(value: f64) -> Self {
        Double(value.to_bits())
    }

    #[must_use]
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl fmt::Debug for Double {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

impl Reply {
    #[must_use]
    pub fn error(text: &'static str) -> Self {
        Reply::Error(Bytes::from_static(text.as_bytes()))
    }

    /// An error with words of the client in it: their line ends become blanks, or the text would break the protocol.
    #[must_use]
    pub fn error_with(text: impl Into<Vec<u8>>) -> Self {
        let mut text = text.into();
        text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
        Reply::Error(text.into())
    }

    #[must_use]
    pub fn text(text: &'static str) -> Self {
        Reply::Value(Bytes::from_static(text.as_bytes()))
    }

    #[must_use]
    pub fn count(count: usize) -> Self {
        Reply::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    #[must_use]
    pub fn values(values: impl IntoIterator<Item = Bytes>) -> Self {
        Reply::Array(values.into_iter().map(Reply::Value).collect())
    }

    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// An error that leaves open whether it was done (R12).
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        matches!(self, Reply::Error(text) if text.starts_with(b"UNCERTAIN "))
    }
}

impl From<bool> for Reply {
    /// As most commands say it: 1 or 0.
    fn from(yes: bool) -> Self {
        Reply::Number(i64::from(yes))
    }
}

const VARIANTS: &[&str] = &[
    "Ok",
    "Nil",
    "Value",
    "Number",
    "Array",
    "Error",
    "Simple",
    "NilArray",
    "Double",
    "Boolean",
    "Map",
    "Set",
    "Verbatim",
    "Push",
    "BigNumber",
];

impl<'de> Deserialize<'de> for Reply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        One(DEEPEST).deserialize(deserializer)
    }
}

/// One reply, with so many levels left. Only for formats that number variants, as postcard does.
#[derive(Clone, Copy)]
struct One(u8);
#[derive(Clone, Copy)]
struct Pair(u8);
struct Many<S>(S);

impl One {
    fn within<E: de::Error>(self) -> Result<Self, E> {
        self.0.checked_sub(1).map(One).ok_or_else(|| E::custom("replies nest too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for One {
    type Value = Reply;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Reply, D::Error> {
        deserializer.deserialize_enum("Reply", VARIANTS, self)
    }
}

impl<'de> Visitor<'de> for One {
    type Value = Reply;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reply")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Reply, A::Error> {
        let (variant, body): (u32, _) = access.variant()?;
        Ok(match variant {
            0 => body.unit_variant().map(|()| Reply::Ok)?,
            1 => body.unit_variant().map(|()| Reply::Nil)?,
            2 => Reply::Value(body.newtype_variant()?),
            3 => Reply::Number(body.newtype_variant()?),
            4 => Reply::Array(body.newtype_variant_seed(Many(self.within()?))?),
            5 => Reply::Error(body.newtype_variant()?),
            6 => Reply::Simple(body.newtype_variant()?),
            7 => body.unit_variant().map(|()| Reply::NilArray)?,
            8 => Reply::Double(body.newtype_variant()?),
            9 => Reply::Boolean(body.newtype_variant()?),
            10 => Reply::Map(body.newtype_variant_seed(Many(Pair(self.within()?.0)))?),
            11 => Reply::Set(body.newtype_variant_seed(Many(self.within()?))?),
            12 => Reply::Verbatim(body.newtype_variant()?),
            13 => Reply::Push(body.newtype_variant_seed(Many(self.within()?))?),
            14 => Reply::BigNumber(body.newtype_variant()?),
            _ => return Err(de::Error::custom("no such reply")),
        })
    }
}

impl<'de> DeserializeSeed<'de> for Pair {
    type Value = (Reply, Reply);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for Pair {
    type Value = (Reply, Reply);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pair of replies")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut next = || access.next_element_seed(One(self.0))?.ok_or_else(|| de::Error::custom("half a pair"));
        Ok((next()?, next()?))
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for Many<S> {
    type Value = Vec<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for Many<S> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("replies")
    }

    /// Grows with what is really there, whatever length was announced.
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self.0)? {
            items.push(item);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_reply() -> impl Strategy<Value = Reply> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..5).prop_map(Bytes::from);
        let leaf = prop_oneof![
            Just(Reply::Ok),
            Just(Reply::Nil),
            Just(Reply::NilArray),
            bytes().prop_map(Reply::Value),
            any::<i64>().prop_map(Reply::Number),
            bytes().prop_map(Reply::Error),
            bytes().prop_map(Reply::Simple),
            any::<f64>().prop_map(|value| Reply::Double(Double::new(value))),
            any::<bool>().prop_map(Reply::Boolean),
            bytes().prop_map(Reply::Verbatim),
            bytes().prop_map(Reply::BigNumber),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let many = || prop::collection::vec(inner.clone(), 0..4);
            prop_oneof![
                many().prop_map(Reply::Array),
                many().prop_map(Reply::Set),
                many().prop_map(Reply::Push),
                prop::collection::vec((inner.clone(), inner.clone()), 0..3).prop_map(Reply::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn decodes_what_it_encoded(reply in any_reply()) {
            let bytes = postcard::to_allocvec(&reply).expect("every reply has an encoding");
            prop_assert_eq!(postcard::from_bytes::<Reply>(&bytes), Ok(reply));
        }

        #[test]
        fn garbage_is_refused_or_understood(garbage in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = postcard::from_bytes::<Reply>(&garbage);
        }
    }

    /// A 4 opens an array, a 1 says that it has one item.
    #[test]
    fn nesting_is_refused_before_it_overflows_the_stack() {
        assert!(postcard::from_bytes::<Reply>(&[4, 1].repeat(1 << 20)).is_err());
        let nested = |levels| (0..levels).fold(Reply::Nil, |inner, _| Reply::Array(vec![inner]));
        let back = |reply| postcard::from_bytes::<Reply>(&postcard::to_allocvec(&reply).expect("encodes"));
        assert_eq!(back(nested(DEEPEST)), Ok(nested(DEEPEST)));
        assert!(back(nested(DEEPEST + 1)).is_err());
    }

    #[test]
    fn line_ends_do_not_get_into_errors() {
        assert_eq!(Reply::error_with("ERR a\r\nb"), Reply::error("ERR a  b"));
    }
}
