//! What can be asked of a slot, and its form in the log.
//!
//! One command touches one key, hence one slot: that is what makes split and backfill exact slot by slot.

use blueprint::Slot;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::slot_of;

/// Postcard numbers the variants: new ones go to the end, or old journals change their meaning.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Command {
    /// Replaces whatever was there, its expiry included. `ttl` in µs.
    Set {
        key: Bytes,
        value: Bytes,
        ttl: Option<u64>,
    },
    Get {
        key: Bytes,
    },
    /// Answers how many keys it removed.
    Del {
        key: Bytes,
    },
    /// Answers the new value; an absent key counts as 0. Keeps the expiry.
    Incr {
        key: Bytes,
        by: i64,
    },
    /// `RPUSH` of one item; answers the new length. Keeps the expiry.
    Push {
        key: Bytes,
        item: Bytes,
    },
    /// The whole list.
    Range {
        key: Bytes,
    },
    /// Proposed by the primary: removes the key if it is expired at the entry's clock (R13). Answers how many keys it removed.
    Reap {
        key: Bytes,
    },
    /// Executes `command` at most once per connection and number (R12). Series do not nest.
    Series {
        connection: Connection,
        number: u64,
        #[serde(with = "unnested")]
        command: Box<Command>,
    },
}

/// The number of a client's connection, which carries its expiry: both together are its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Connection {
    pub id: u64,
    /// In µs on the clock of the data: refused at or after that.
    pub expires: u64,
}

/// All that execution may know besides the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The clock of the data, in µs (R13). Never goes back from entry to entry.
    pub clock: u64,
    pub seed: u64,
}

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("malformed encoding")
    }
}

impl std::error::Error for Malformed {}

impl Command {
    #[must_use]
    pub fn key(&self) -> &Bytes {
        match self {
            Command::Set { key, .. }
            | Command::Get { key }
            | Command::Del { key }
            | Command::Incr { key, .. }
            | Command::Push { key, .. }
            | Command::Range { key }
            | Command::Reap { key } => key,
            Command::Series { command, .. } => command.key(),
        }
    }

    #[must_use]
    pub fn slot(&self) -> Slot {
        slot_of(self.key())
    }

    /// Must it go through the log? A series always must, whatever it holds: it leaves its answer in the session.
    #[must_use]
    pub fn is_write(&self) -> bool {
        match self {
            Command::Get { .. } | Command::Range { .. } => false,
            Command::Set { .. }
            | Command::Del { .. }
            | Command::Incr { .. }
            | Command::Push { .. }
            | Command::Reap { .. }
            | Command::Series { .. } => true,
        }
    }

    /// # Panics
    /// On a series within a series: whoever builds commands must not nest them.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        postcard::to_allocvec(self).expect("only a nested series has no encoding").into()
    }

    pub fn decode(bytes: &[u8]) -> Result<Command, Malformed> {
        decode_all(bytes)
    }
}

/// Decodes a value that must fill `bytes` to the last one.
pub(crate) fn decode_all<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(Malformed),
    }
}

/// The encoding of a command within a series: every command but a series. Nesting is cut off here and not after decoding, as a
/// few kilobytes of garbage could otherwise nest deep enough to overflow the stack.
mod unnested {
    use super::{Bytes, Command, Connection};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "Command")]
    #[allow(dead_code)] // stands for Command, is never built
    enum Unnested {
        Set {
            key: Bytes,
            value: Bytes,
            ttl: Option<u64>,
        },
        Get {
            key: Bytes,
        },
        Del {
            key: Bytes,
        },
        Incr {
            key: Bytes,
            by: i64,
        },
        Push {
            key: Bytes,
            item: Bytes,
        },
        Range {
            key: Bytes,
        },
        Reap {
            key: Bytes,
        },
        #[serde(skip)]
        Series {
            connection: Connection,
            number: u64,
            command: Box<Command>,
        },
    }

    #[allow(clippy::borrowed_box)] // serde hands over the field as it is
    pub(super) fn serialize<S: Serializer>(command: &Box<Command>, serializer: S) -> Result<S::Ok, S::Error> {
        Unnested::serialize(command, serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<Command>, D::Error> {
        Unnested::deserialize(deserializer).map(Box::new)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Few keys and small values, so that commands meet each other.
    pub(crate) fn any_plain() -> impl Strategy<Value = Command> {
        let key = || (0u8..4).prop_map(|key| Bytes::from(vec![b'a' + key]));
        let text = || {
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from),
                prop_oneof![-3i64..3, Just(i64::MAX), Just(i64::MIN)].prop_map(|n| Bytes::from(n.to_string())),
            ]
        };
        let by = prop_oneof![4 => -3i64..3, 1 => any::<i64>()];
        prop_oneof![
            (key(), text(), prop::option::of(0u64..30)).prop_map(|(key, value, ttl)| Command::Set { key, value, ttl }),
            key().prop_map(|key| Command::Get { key }),
            key().prop_map(|key| Command::Del { key }),
            (key(), by).prop_map(|(key, by)| Command::Incr { key, by }),
            (key(), text()).prop_map(|(key, item)| Command::Push { key, item }),
            key().prop_map(|key| Command::Range { key }),
            key().prop_map(|key| Command::Reap { key }),
        ]
    }

    pub(crate) fn any_command() -> impl Strategy<Value = Command> {
        let series = (0u64..3, 1u64..4, 0u64..200, any_plain()).prop_map(|(id, life, number, command)| {
            Command::Series { connection: Connection { id, expires: life * 100 }, number, command: Box::new(command) }
        });
        prop_oneof![any_plain(), series]
    }

    proptest! {
        #[test]
        fn decodes_what_it_encoded(command in any_command()) {
            prop_assert_eq!(Command::decode(&command.encode()), Ok(command));
        }

        #[test]
        fn garbage_is_refused_or_understood(garbage in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(command) = Command::decode(&garbage) {
                prop_assert_eq!(Command::decode(&command.encode()), Ok(command));
            }
        }

        #[test]
        fn a_cut_or_longer_encoding_is_refused(command in any_command(), cut in any::<prop::sample::Index>()) {
            let bytes = command.encode();
            prop_assert_eq!(Command::decode(&bytes[..cut.index(bytes.len())]), Err(Malformed));
            let mut longer = bytes.to_vec();
            longer.push(0);
            prop_assert_eq!(Command::decode(&longer), Err(Malformed));
        }
    }

    /// A byte of 7 opens a series; four of them each name connection, expiry and number.
    #[test]
    fn nested_series_are_refused_before_they_overflow_the_stack() {
        assert_eq!(Command::decode(&vec![7; 1 << 20]), Err(Malformed));
        let once = Command::Series {
            connection: Connection { id: 7, expires: 7 },
            number: 7,
            command: Box::new(Command::Get { key: Bytes::from_static(b"k") }),
        };
        let encoded = once.encode();
        assert_eq!(Command::decode(&encoded), Ok(once));
        let twice = [&[7, 7, 7, 7], &encoded[..]].concat();
        assert_eq!(Command::decode(&twice), Err(Malformed));
    }

    #[test]
    fn a_series_is_a_write_on_the_key_within() {
        let key = Bytes::from_static(b"foo");
        let series = Command::Series {
            connection: Connection { id: 1, expires: 2 },
            number: 3,
            command: Box::new(Command::Get { key: key.clone() }),
        };
        assert!(series.is_write());
        assert_eq!(series.key(), &key);
        assert_eq!(series.slot(), Slot(12182));
        assert!(!Command::Range { key }.is_write());
    }
}
