//! What travels between two nodes: a greeting, then frames.
//!
//! A link carries frames in one direction, from who dialled to who answered, so that nobody has to agree on who dials. Before
//! the first frame both say who they are; whoever does not belong here is told why and gets no further. TLS will wrap the
//! stream; nothing here knows.
//!
//! ```text
//! greeting   "GODWIT1\n"  u32 length  Hello (postcard)      →
//!                         u32 length  Welcome (postcard)    ←
//! frame      u32 length   Frame (postcard)                  →
//! ```

use blueprint::NodeId;
use bytes::{Buf, Bytes, BytesMut};
use node::PeerMessage;
use serde::{Deserialize, Serialize};

/// Raised whenever nodes of the version before would misunderstand us.
pub const PROTOCOL: u32 = 3;

pub(crate) const MAGIC: &[u8; 8] = b"GODWIT1\n";

/// Who has not proved to be one of us may make us keep no more than this.
pub(crate) const LONGEST_GREETING: usize = 4096;

/// One value of 512 MB, in the table of its slot, and what stands around it.
pub(crate) const LONGEST_FRAME: usize = 768 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    /// 0: does not belong to one yet, and may only ask to join.
    pub(crate) cluster: u128,
    pub(crate) from: NodeId,
    /// Whom it believes to have dialled; none: whoever answers there.
    pub(crate) to: Option<NodeId>,
    pub(crate) end: End,
}

/// The part of the other node that dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Desk,
    Lane(u16),
    /// What is large, so that it delays nothing else.
    Bulk(u16),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Welcome {
    Come { node: NodeId, cluster: u128 },
    Stay { why: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Frame {
    Message(PeerMessage),
    /// Of the meta group. The answer comes over the link of the other direction.
    Call {
        id: u64,
        body: Bytes,
    },
    CallAnswer {
        id: u64,
        body: Bytes,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadFrame {
    #[error("a frame of {0} bytes, which is longer than any")]
    TooLong(usize),
    #[error("a frame that does not decode: the other side is broken, or not one of us")]
    Malformed,
}

/// Appends a frame to what is to be written.
pub(crate) fn put<T: Serialize>(buffer: &mut Vec<u8>, frame: &T) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    let mut filled = std::mem::take(buffer);
    filled = postcard::to_extend(frame, filled).expect("every frame has an encoding");
    *buffer = filled;
    let length = (buffer.len() - start - 4) as u32;
    buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Takes the next frame out of what was read, if all of it is there.
pub(crate) fn take<T: for<'a> Deserialize<'a>>(buffer: &mut BytesMut, longest: usize) -> Result<Option<T>, BadFrame> {
    let Some(head) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > longest {
        return Err(BadFrame::TooLong(length));
    }
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    buffer.advance(4);
    let body = buffer.split_to(length);
    match postcard::take_from_bytes(&body) {
        Ok((frame, [])) => Ok(Some(frame)),
        Ok(_) | Err(_) => Err(BadFrame::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use blueprint::Epoch;

    use super::*;

    #[test]
    fn frames_arrive_whole_however_they_are_cut() {
        let frames = [
            Frame::Message(PeerMessage::Echoed(Epoch(7))),
            Frame::Call { id: 1, body: Bytes::from_static(b"abc") },
            Frame::CallAnswer { id: u64::MAX, body: Bytes::new() },
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| put(&mut bytes, frame));
        for cut in 0..=bytes.len() {
            let (mut buffer, mut seen) = (BytesMut::new(), Vec::new());
            for piece in [&bytes[..cut], &bytes[cut..]] {
                buffer.extend_from_slice(piece);
                while let Some(frame) = take::<Frame>(&mut buffer, LONGEST_FRAME).expect("well formed") {
                    seen.push(frame);
                }
            }
            assert_eq!(seen, frames);
        }
    }

    #[test]
    fn what_is_too_long_or_garbage_is_refused_before_it_is_kept() {
        let mut long = BytesMut::from(&[0xff, 0xff, 0xff, 0xff][..]);
        assert_eq!(take::<Frame>(&mut long, LONGEST_GREETING), Err(BadFrame::TooLong(u32::MAX as usize)));
        let mut garbage = BytesMut::from(&[2, 0, 0, 0, 0xff, 0xff][..]);
        assert_eq!(take::<Frame>(&mut garbage, LONGEST_GREETING), Err(BadFrame::Malformed));
        let mut longer = Vec::new();
        put(&mut longer, &Frame::Message(PeerMessage::Echoed(Epoch(7))));
        longer[0] += 1;
        longer.push(0);
        assert_eq!(take::<Frame>(&mut BytesMut::from(&longer[..]), LONGEST_GREETING), Err(BadFrame::Malformed));
    }
}
