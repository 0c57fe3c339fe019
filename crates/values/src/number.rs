//! Whole numbers as text, both ways, exactly as Redis reads and prints them.

use bytes::Bytes;

/// Only what Redis itself would print: no plus, no leading zero, no blank.
#[must_use]
pub fn parse_number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    // Nineteen digits fit into 64 bits without a sign.
    let mut magnitude = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// The same for numbers that are never negative and may use all 64 bits: cursors, series.
#[must_use]
pub fn parse_unsigned(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] if text.iter().all(u8::is_ascii_digit) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A number in digits, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    digits: [u8; 20],
    from: usize,
}

impl Decimal {
    #[must_use]
    pub fn new(number: i64) -> Self {
        let mut decimal = Self::unsigned(number.unsigned_abs());
        if number < 0 {
            decimal.from -= 1; // at most nineteen digits came before
            decimal.digits[decimal.from] = b'-';
        }
        decimal
    }

    #[must_use]
    pub fn unsigned(mut number: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut from = digits.len();
        loop {
            from -= 1;
            digits[from] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Decimal { digits, from };
            }
        }
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[self.from..]
    }

    #[must_use]
    pub fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }
}

impl AsRef<[u8]> for Decimal {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_as_redis_prints_them() {
        for (text, expected) in
            [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)]
        {
            assert_eq!(parse_number(text.as_bytes()), Some(expected));
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "-01",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
            "1\u{e9}",
            "-9223372036854775809",
        ] {
            assert_eq!(parse_number(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_unsigned(b"18446744073709551615"), Some(u64::MAX));
        for text in ["", "-1", "00", "18446744073709551616", "1x"] {
            assert_eq!(parse_unsigned(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn there_and_back(number in any::<i64>(), small in -2000i64..2000, unsigned in any::<u64>()) {
            for number in [number, small, i64::MIN, i64::MAX] {
                prop_assert_eq!(Decimal::new(number).to_bytes(), number.to_string());
                prop_assert_eq!(parse_number(Decimal::new(number).as_bytes()), Some(number));
            }
            prop_assert_eq!(parse_unsigned(Decimal::unsigned(unsigned).as_bytes()), Some(unsigned));
        }
    }
}
