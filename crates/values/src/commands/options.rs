//! Words that several commands read alike.

use bytes::Bytes;

use crate::number::parse_number;
use crate::{Reply, errors};

pub(super) fn number(word: &Bytes) -> Result<i64, Reply> {
    parse_number(word).ok_or_else(errors::not_a_number)
}

pub(super) fn is(word: &Bytes, name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

/// The longest string that Redis takes by default.
pub(super) const LONGEST: usize = 512 * 1024 * 1024;

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time {
    pub(super) unit: Unit,
    pub(super) from: From,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Now,
    Epoch,
}

pub(super) const EX: Time = Time { unit: Unit::Seconds, from: From::Now };
pub(super) const PX: Time = Time { unit: Unit::Millis, from: From::Now };
pub(super) const EXAT: Time = Time { unit: Unit::Seconds, from: From::Epoch };
pub(super) const PXAT: Time = Time { unit: Unit::Millis, from: From::Epoch };

impl Time {
    /// The option of that name.
    pub(super) fn named(word: &Bytes) -> Option<Self> {
        let names = [("EX", EX), ("PX", PX), ("EXAT", EXAT), ("PXAT", PXAT)];
        names.into_iter().find(|(name, _)| is(word, name)).map(|(_, time)| time)
    }

    /// The moment that a number means, in µs on the clock of the data, or `None` if it is beyond what Redis can count. May be
    /// before 1970, and so negative; and ends in whole milliseconds, unless it counts from now.
    pub(super) fn moment(self, number: i64, clock: u64) -> Option<i128> {
        let millis = match self.unit {
            Unit::Seconds => number.checked_mul(1000)?,
            Unit::Millis => number,
        };
        match self.from {
            From::Now => {
                millis.checked_add(i64::try_from(clock / 1000).ok()?)?;
                Some(i128::from(clock) + i128::from(millis) * 1000)
            }
            From::Epoch => Some(i128::from(millis) * 1000),
        }
    }

    /// When a value with this option expires: Redis wants a positive number here.
    pub(super) fn expiry(self, command: &Bytes, word: &Bytes, clock: u64) -> Result<u64, Reply> {
        let number = number(word)?;
        let moment = Some(number).filter(|number| *number > 0).and_then(|number| self.moment(number, clock));
        moment.map(clamp).ok_or_else(|| errors::invalid_expiry(command))
    }
}

/// Into what tables keep. What is beyond is 580,000 years away: as good as never.
pub(super) fn clamp(moment: i128) -> u64 {
    u64::try_from(moment.max(0)).unwrap_or(u64::MAX)
}
