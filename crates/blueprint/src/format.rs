//! A blueprint as bytes: for disks, snapshots and peers.
//!
//! Eight bytes that say what this is, two for the version of the format, then postcard. What is read is checked as a whole before
//! anyone sees it: bytes either become a sound blueprint or an error, never a panic.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::MetaState;
use crate::blueprint::{Blueprint, Parts};
use crate::soundness::Flaw;

const MAGIC: [u8; 8] = *b"GODWITBP";
const META_MAGIC: [u8; 8] = *b"GODWITMS";
/// Raised whenever the bytes of one version could be misread by another.
pub const FORMAT_VERSION: u16 = 5;
const HEADER: usize = MAGIC.len() + 2;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("this is not a blueprint: it does not begin like one. Look whether the right file or peer was asked")]
    NotABlueprint,
    #[error(
        "the blueprint has format {found}, and this program knows only {FORMAT_VERSION}: it was written by another release. Use \
         that one"
    )]
    UnknownVersion { found: u16 },
    #[error("the blueprint is damaged and cannot be read ({0}). Fetch it again from another node")]
    Damaged(postcard::Error),
    #[error("{0} bytes follow the end of the blueprint: it is damaged. Fetch it again from another node")]
    Trailing(usize),
    #[error("{0}. Fetch it again from another node")]
    Flawed(#[from] Flaw),
}

pub fn encode(blueprint: &Blueprint) -> Vec<u8> {
    write(MAGIC, blueprint)
}

pub fn decode(bytes: &[u8]) -> Result<Blueprint, FormatError> {
    Ok(Blueprint::try_from(read::<Parts>(MAGIC, bytes)?)?)
}

/// All that the meta group keeps: for its snapshots.
pub fn encode_meta(state: &MetaState) -> Vec<u8> {
    write(META_MAGIC, state)
}

pub fn decode_meta(bytes: &[u8]) -> Result<MetaState, FormatError> {
    let state: MetaState = read(META_MAGIC, bytes)?;
    state.validate()?;
    Ok(state)
}

fn write(magic: [u8; 8], body: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::from(magic);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    postcard::to_extend(body, bytes).expect("every collection has a length and memory is all it takes")
}

fn read<'a, T: Deserialize<'a>>(expected: [u8; 8], bytes: &'a [u8]) -> Result<T, FormatError> {
    let (header, body) = bytes.split_at_checked(HEADER).ok_or(FormatError::NotABlueprint)?;
    let (magic, version) = header.split_at(expected.len());
    if magic != expected {
        return Err(FormatError::NotABlueprint);
    }
    let found = u16::from_le_bytes([version[0], version[1]]);
    if found != FORMAT_VERSION {
        return Err(FormatError::UnknownVersion { found });
    }
    let (value, rest) = postcard::take_from_bytes(body).map_err(FormatError::Damaged)?;
    if rest.is_empty() { Ok(value) } else { Err(FormatError::Trailing(rest.len())) }
}
