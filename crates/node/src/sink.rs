//! Postcard, behind what is there already: frames gather in one buffer for each peer, and records in one for the journal.

use postcard::ser_flavors::Flavor;
use serde::Serialize;

struct Sink<'a>(&'a mut Vec<u8>);

impl Flavor for Sink<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        // Most are numbers, and most numbers are small.
        if bytes.len() <= 4 {
            bytes.iter().for_each(|byte| self.0.push(*byte));
        } else {
            self.0.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Appends what postcard makes of it.
pub fn encode_onto<T: Serialize>(value: &T, bytes: &mut Vec<u8>) {
    postcard::serialize_with_flavor(value, Sink(bytes)).expect("everything that is written or sent has an encoding");
}
