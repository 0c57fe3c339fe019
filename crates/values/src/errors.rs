//! The texts of Redis 7.0 that more than one command answers.

use bytes::Bytes;

use crate::Reply;

pub(crate) fn wrong_type() -> Reply {
    Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

pub(crate) fn not_a_number() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}

pub(crate) fn overflow() -> Reply {
    Reply::error("ERR increment or decrement would overflow")
}

pub(crate) fn not_positive() -> Reply {
    Reply::error("ERR value is out of range, must be positive")
}

pub(crate) fn syntax() -> Reply {
    Reply::error("ERR syntax error")
}

pub(crate) fn no_such_key() -> Reply {
    Reply::error("ERR no such key")
}

pub(crate) fn too_long() -> Reply {
    Reply::error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
}

pub(crate) fn cross_slot() -> Reply {
    Reply::error("CROSSSLOT Keys in request don't hash to the same slot")
}

/// Of a command in several parts, one of which failed like this.
pub(crate) fn partly_done(error: &Reply) -> Reply {
    let why = if let Reply::Error(text) = error { &text[..] } else { &[] };
    let what = b"UNCERTAIN part of it may have been done, for its keys are in several slots: read them before asking again, or ask for \
        keys of one slot. The first part that failed: ";
    Reply::error_with([what, why].concat())
}

pub(crate) fn wrong_arity(name: &[u8]) -> Reply {
    Reply::error_with([b"ERR wrong number of arguments for '", name, b"' command"].concat())
}

pub(crate) fn invalid_expiry(name: &[u8]) -> Reply {
    Reply::error_with([b"ERR invalid expire time in '", name, b"' command"].concat())
}

/// At most 128 bytes of the name, and of the arguments together about as many.
pub(crate) fn unknown_command(args: &[Bytes]) -> Reply {
    let mut beginning = Vec::new();
    for arg in args.iter().skip(1) {
        if beginning.len() >= 128 {
            break;
        }
        let room = 128 - beginning.len();
        beginning.push(b'\'');
        beginning.extend_from_slice(shown(arg, room));
        beginning.extend_from_slice(b"' ");
    }
    let name = args.first().map_or(&[][..], |name| shown(name, 128));
    let text = [b"ERR unknown command '", name, b"', with args beginning with: ", &beginning[..]];
    Reply::error_with(text.concat())
}

pub(crate) fn unknown_subcommand(args: &[Bytes]) -> Reply {
    let text =
        [b"ERR unknown subcommand '", shown(&args[1], 128), b"'. Try ", &args[0].to_ascii_uppercase(), b" HELP."];
    Reply::error_with(text.concat())
}

/// As C prints it: up to the first zero.
fn shown(text: &[u8], most: usize) -> &[u8] {
    let text = &text[..text.len().min(most)];
    text.split(|byte| *byte == 0).next().unwrap_or(text)
}

/// R12: the number is at or below the floor of its connection, or not to be told apart any more.
pub(crate) fn stale_series() -> Reply {
    Reply::error("STALESERIES the number is too old: whether it was executed is no longer known")
}

/// R12: on the clock of the data.
pub(crate) fn expired_connection() -> Reply {
    Reply::error("EXPIREDCONNECTION the connection of this series has expired")
}
