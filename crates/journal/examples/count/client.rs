//! What the client of the script sends, and what it must be answered.

use blueprint::Slot;
use bytes::{Bytes, BytesMut};

/// A few in each of some slots of every bucket: as a busy keyspace has them, and soon filled.
pub(crate) const KEYS: usize = 1024;
const KEYS_IN_SLOT: usize = 4;
const SLOTS_APART: u16 = Slot::COUNT / (KEYS / KEYS_IN_SLOT) as u16;
/// Coprime to the number of keys: one after the other they are of other buckets, and all have their turn.
const STRIDE: usize = 309;
const VALUE: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Set,
    Get,
}

pub(crate) struct Client {
    /// Each key's requests: to set it and to get it.
    requests: Vec<[Vec<u8>; 2]>,
    next: usize,
    sent: Vec<u8>,
}

impl Client {
    pub(crate) fn new() -> Self {
        let requests = keys().iter().map(|key| [Verb::Set, Verb::Get].map(|verb| request(verb, key))).collect();
        Self { requests, next: 0, sent: Vec::new() }
    }

    /// The next so many requests, in one piece.
    pub(crate) fn ask(&mut self, verb: Verb, count: usize) -> &[u8] {
        self.sent.clear();
        for _ in 0..count {
            self.next = (self.next + STRIDE) % KEYS;
            let [set, get] = &self.requests[self.next];
            self.sent.extend_from_slice(if verb == Verb::Set { set } else { get });
        }
        &self.sent
    }

    /// All of them were answered, and as they should be. A look at the first is enough: the lengths tell the others apart.
    pub(crate) fn check(&self, verb: Verb, count: usize, answers: &[u8]) {
        let (first, length): (&[u8], usize) = match verb {
            Verb::Set => (b"+OK\r\n", 5),
            Verb::Get => (b"$64\r\nvvvv", 5 + VALUE + 2),
        };
        let is_right = answers.starts_with(first) && answers.len() == count * length;
        assert!(is_right, "{verb:?}: {}", String::from_utf8_lossy(answers));
    }
}

/// As redis-benchmark names them; those that are of the slots that are used.
fn keys() -> Vec<[u8; 16]> {
    let mut of_slot = vec![Vec::new(); KEYS / KEYS_IN_SLOT];
    let (mut missing, mut key) = (KEYS, *b"key:000000000000");
    while missing > 0 {
        let Slot(slot) = values::slot_of(&key);
        let keys = &mut of_slot[usize::from(slot / SLOTS_APART)];
        if slot % SLOTS_APART == 0 && keys.len() < KEYS_IN_SLOT {
            keys.push(key);
            missing -= 1;
        }
        let nines = key.iter().rev().take_while(|digit| **digit == b'9').count();
        key[16 - nines..].fill(b'0');
        key[15 - nines] += 1;
    }
    of_slot.concat()
}

fn request(verb: Verb, key: &[u8]) -> Vec<u8> {
    let key = Bytes::copy_from_slice(key);
    let words = match verb {
        Verb::Set => vec![Bytes::from_static(b"SET"), key, Bytes::from_static(&[b'v'; VALUE])],
        Verb::Get => vec![Bytes::from_static(b"GET"), key],
    };
    let mut bytes = BytesMut::new();
    resp::encode_request(&words, &mut bytes);
    bytes.to_vec()
}
