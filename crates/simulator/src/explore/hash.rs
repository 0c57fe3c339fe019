//! Names for states: a 128-bit hash of everything in them, and tables that give each distinct thing a small number.
//!
//! Two different states with the same 128 bits would be taken for one. With ten million states the odds of that are about one
//! in 10^24, so nothing is compared.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher};

/// Two lanes of 64 bits, each word multiplied into both. Not for hostile input: what is hashed here comes from ourselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mixer {
    left: u64,
    right: u64,
}

const LEFT: u64 = 0x9e37_79b9_7f4a_7c15;
const RIGHT: u64 = 0xd6e8_feb8_6659_fd93;

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.left = folded(self.left ^ word, LEFT).wrapping_add(word.rotate_left(32));
        self.right = folded(self.right.wrapping_add(word) ^ LEFT, RIGHT) ^ self.left.rotate_left(17);
    }

    pub(super) fn name(self) -> u128 {
        let (left, right) = (folded(self.left ^ RIGHT, LEFT), folded(self.right ^ LEFT, RIGHT));
        u128::from(left ^ right.rotate_left(29)) << 64 | u128::from(right.wrapping_add(left.rotate_left(41)))
    }
}

fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64) ^ a.rotate_left(23)
}

impl Default for Mixer {
    fn default() -> Self {
        Self { left: RIGHT, right: LEFT }
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n));
    }

    fn write_u16(&mut self, n: u16) {
        self.mix(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }

    fn finish(&self) -> u64 {
        self.name() as u64
    }
}

impl BuildHasher for Mixer {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self::default()
    }
}

pub(super) fn name_of(value: &impl Hash) -> u128 {
    let mut mixer = Mixer::default();
    value.hash(&mut mixer);
    mixer.name()
}

/// For keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only names are kept under their own value");
    }

    fn write_u128(&mut self, n: u128) {
        self.0 = n as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl BuildHasher for AsItIs {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

pub(super) type Names = HashSet<u128, AsItIs>;

/// Gives every distinct thing a number, in order of appearance.
#[derive(Clone, Debug)]
pub(super) struct Numbered<T> {
    things: Vec<T>,
    by_name: HashMap<u128, u32, AsItIs>,
}

impl<T> Numbered<T> {
    pub(super) fn new() -> Self {
        Self { things: Vec::new(), by_name: HashMap::default() }
    }

    pub(super) fn get(&self, number: u32) -> &T {
        &self.things[number as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.things.len()
    }

    /// The number of the thing with this name; it is made only when it is new.
    pub(super) fn number(&mut self, name: u128, make: impl FnOnce() -> T) -> u32 {
        let next = u32::try_from(self.things.len()).expect("memory ends before numbers do");
        let number = *self.by_name.entry(name).or_insert(next);
        if number == next {
            self.things.push(make());
        }
        number
    }
}

impl<T: Hash> Numbered<T> {
    pub(super) fn add(&mut self, thing: T) -> u32 {
        self.number(name_of(&thing), || thing)
    }
}
