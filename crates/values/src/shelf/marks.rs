//! What a leaf says of its items besides the items: for each its place, by which it is found, and its head (see [`crate::item`]).
//!
//! Both lie in one piece of memory, first all places, then all heads. So places are compared side by side, a head is hardly ever farther
//! away than they are, and a table has no third vector to carry: it is as small as without heads.

const PLACE: usize = size_of::<u32>();
const BOTH: usize = PLACE + 1;

#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// Of `n` items: `n` places of four bytes, least one first, then `n` heads.
    bytes: Vec<u8>,
}

impl Marks {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / BOTH
    }

    fn places(&self) -> &[[u8; PLACE]] {
        self.bytes[..PLACE * self.len()].as_chunks().0
    }

    fn heads(&self) -> &[u8] {
        &self.bytes[PLACE * self.len()..]
    }

    /// Where something of that place is, or would be.
    pub(super) fn find(&self, place: u32) -> usize {
        // Counting all of them costs less than to decide after each whether to go on.
        self.places().iter().map(|known| u32::from(u32::from_le_bytes(*known) < place)).sum::<u32>() as usize
    }

    pub(super) fn place(&self, at: usize) -> Option<u32> {
        self.places().get(at).map(|place| u32::from_le_bytes(*place))
    }

    pub(super) fn head(&self, at: usize) -> Option<u8> {
        self.heads().get(at).copied()
    }

    pub(super) fn head_mut(&mut self, at: usize) -> &mut u8 {
        let heads = PLACE * self.len();
        &mut self.bytes[heads..][at]
    }

    /// Places and heads.
    pub(super) fn from(&self, at: usize) -> impl Iterator<Item = (u32, u8)> + Clone {
        let places = self.places()[at..].iter().map(|place| u32::from_le_bytes(*place));
        places.zip(self.heads()[at..].iter().copied())
    }

    pub(super) fn reserve_exact(&mut self, count: usize) {
        self.bytes.reserve_exact(BOTH * count);
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(super) fn insert(&mut self, at: usize, place: u32, head: u8) {
        let (from, heads, end) = (PLACE * at, PLACE * self.len(), self.bytes.len());
        self.bytes.extend_from_slice(&[0; BOTH]);
        // Heads behind it make way for both; heads before it, and places behind it, for the place.
        self.bytes.copy_within(heads + at..end, heads + at + BOTH);
        self.bytes.copy_within(from..heads + at, from + PLACE);
        self.bytes[from..][..PLACE].copy_from_slice(&place.to_le_bytes());
        self.bytes[heads + PLACE + at] = head;
    }

    /// Answers the head.
    pub(super) fn remove(&mut self, at: usize) -> u8 {
        let (from, heads, end) = (PLACE * at, PLACE * self.len(), self.bytes.len());
        let head = self.bytes[heads + at];
        self.bytes.copy_within(from + PLACE..heads + at, from);
        self.bytes.copy_within(heads + at + 1..end, heads + at - PLACE);
        self.bytes.truncate(end - BOTH);
        head
    }

    pub(super) fn append(&mut self, upper: &Marks) {
        self.bytes.reserve_exact(upper.bytes.len());
        let heads = self.bytes.split_off(PLACE * self.len());
        self.bytes.extend_from_slice(upper.places().as_flattened());
        self.bytes.extend_from_slice(&heads);
        self.bytes.extend_from_slice(upper.heads());
    }

    pub(super) fn split_off(&mut self, at: usize) -> Marks {
        let (places, heads) = (self.places().as_flattened(), self.heads());
        let upper = [&places[PLACE * at..], &heads[at..]].concat();
        self.bytes = [&places[..PLACE * at], &heads[..at]].concat();
        Marks { bytes: upper }
    }

    /// How many fit into the memory that it has.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity() / BOTH
    }
}
