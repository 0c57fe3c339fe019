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
    if !key.contains(&b'{') {
        return None; // nearly always, and that is found faster than where one is
    }
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|&byte| byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

/// CRC-16/XMODEM: polynomial 0x1021, starts at zero, nothing reflected. Eight bytes at once, each by the table of how far it is from the
/// end: one step would otherwise wait for the one before it, byte for byte.
fn crc16(bytes: &[u8]) -> u16 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let crc = eights.iter().fold(0u16, |crc, &[a, b, c, d, e, f, g, h]| {
        let [first, second] = crc.to_be_bytes();
        let of = |behind: usize, byte: u8| TABLES[behind][usize::from(byte)];
        of(7, a ^ first) ^ of(6, b ^ second) ^ of(5, c) ^ of(4, d) ^ of(3, e) ^ of(2, f) ^ of(1, g) ^ of(0, h)
    });
    rest.iter().fold(crc, |crc, &byte| (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)])
}

/// What a byte adds to the checksum when so many others follow it.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut behind = 0;
        while behind < 8 {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
                bit += 1;
            }
            tables[behind][byte] = crc;
            behind += 1;
        }
        byte += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_xmodem() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    #[test]
    fn eight_bytes_at_once_are_eight_bytes_one_by_one() {
        let slow = |bytes: &[u8]| {
            bytes.iter().fold(0u16, |crc, &byte| {
                (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 })
            })
        };
        let bytes: Vec<u8> = (0..64u32).map(|at| (at * at * 37 + 11) as u8).collect();
        for length in 0..=bytes.len() {
            assert_eq!(crc16(&bytes[..length]), slow(&bytes[..length]), "{length} bytes");
        }
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
