//! From key to slot, exactly as in Redis Cluster: CRC16 of the key, or of its hash tag if it has one.

use blueprint::Slot;

const SLOTS: u16 = 16384;

/// The slot of a key. What stands between the first `{` and the next `}` counts alone, unless it is empty: so a client can keep
/// keys together.
#[must_use]
pub fn slot_of(key: &[u8]) -> Slot {
    Slot(crc16(tag(key).unwrap_or(key)) % SLOTS)
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|&byte| byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

/// CRC-16/XMODEM: polynomial 0x1021, starts at zero, nothing reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

static TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_xmodem() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    /// Answers of `CLUSTER KEYSLOT` of a real Redis.
    #[test]
    fn known_slots() {
        assert_eq!(slot_of(b""), Slot(0));
        assert_eq!(slot_of(b"foo"), Slot(12182));
        assert_eq!(slot_of(b"bar"), Slot(5061));
        assert_eq!(slot_of(b"hello"), Slot(866));
    }

    #[test]
    fn hash_tags() {
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"), "from the first brace to the first that closes");
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"), "only the first tag");
        assert_eq!(tag(b"foo{}{bar}"), None, "an empty tag is none");
        assert_eq!(tag(b"foo}{bar"), None);
    }
}
