//! A value that is on its way into a slot or out of it, or lies apart from its key.

use std::collections::VecDeque;

use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(Bytes),
    /// Never empty.
    List(VecDeque<Bytes>),
}

/// What an encoding takes for an item of a list besides the item, about: its length.
const PER_ITEM: u64 = 2;

impl Value {
    /// In the memory of a text that is as long, if nobody else sees that.
    pub(crate) fn overwrite(&mut self, text: &[u8]) -> bool {
        let Value::Text(old) = self else { return false };
        if old.len() != text.len() {
            return false;
        }
        match std::mem::take(old).try_into_mut() {
            Ok(mut bytes) => {
                bytes.copy_from_slice(text);
                *old = bytes.freeze();
                true
            }
            Err(shared) => {
                *old = shared;
                false
            }
        }
    }
}

/// As if all were like the first, the one in the middle and the last: a list may be long, and is weighed with each change. What it
/// weighed before is what it weighed when it was changed last, so sums stay sums whatever the guess is worth.
pub(crate) fn weight_of_items(items: &VecDeque<Bytes>) -> u64 {
    let count = items.len();
    let some = [items.front(), items.get(count / 2), items.back()].into_iter().flatten();
    let bytes: u64 = some.map(|item| item.len() as u64 + PER_ITEM).sum();
    bytes * count as u64 / 3
}

/// A copy that is kept for long. A slice of the entry that brought it would hold on to all of that, and to the frame that the
/// entry came in.
pub(crate) fn own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
