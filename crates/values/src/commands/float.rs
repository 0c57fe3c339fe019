//! Numbers with a fraction as `INCRBYFLOAT` has them. Redis computes in extended precision (64 bits of mantissa) and prints 17 places
//! after the point, and both show: in double precision 0.1 + 0.2 would be 0.30000000000000004. So this computes the same, in
//! whole numbers, alike on every machine.

use std::cmp::Ordering;

/// `mantissa * 2^exponent`. The highest bit of the mantissa is set, unless it is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Float {
    negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// `Infinite` can be read, but not be the result of anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Finite(Float),
    Infinite,
}

pub(super) const ZERO: Number = Number::Finite(Float { negative: false, mantissa: 0, exponent: 0 });

/// From 2 to the power of this on there is only infinity.
const TOO_LARGE: i32 = 16384;
/// The longest text that Redis looks at.
const LONGEST_TEXT: usize = 5 * 1024;
/// Powers of ten beyond which every number is infinite, or nothing.
const LARGEST_POWER: i64 = 4933;
const SMALLEST_POWER: i64 = -4951;

/// As C reads it, without blanks before or after.
pub(super) fn parse(text: &[u8]) -> Option<Number> {
    if text.len() >= LONGEST_TEXT {
        return None;
    }
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
        return Some(Number::Infinite);
    }
    let float = match text {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(negative, digits)?,
        digits => decimal(negative, digits)?,
    };
    (!float.is_too_large()).then_some(Number::Finite(float))
}

fn decimal(negative: bool, text: &[u8]) -> Option<Float> {
    let Digits { whole, fraction, power } = Digits::of(text, b'e', u8::is_ascii_digit)?;
    let all = whole.iter().chain(fraction);
    let Some(leading) = all.clone().position(|digit| *digit != b'0') else {
        return Some(Float { negative, mantissa: 0, exponent: 0 });
    };
    let size = whole.len() as i64 - leading as i64 + power; // below 10 to this power
    if !(SMALLEST_POWER..=LARGEST_POWER).contains(&size) {
        return None;
    }
    let mut number = Big::default();
    all.for_each(|digit| number.multiply_add(10, u32::from(digit - b'0')));
    Some(scaled(negative, number, power - fraction.len() as i64))
}

/// `0x1.8p3`, without the `0x`: the power is one of two.
fn hexadecimal(negative: bool, text: &[u8]) -> Option<Float> {
    let Digits { whole, fraction, power } = Digits::of(text, b'p', u8::is_ascii_hexdigit)?;
    let mut number = Big::default();
    for digit in whole.iter().chain(fraction) {
        number.multiply_add(16, (*digit as char).to_digit(16)?);
    }
    let power = i32::try_from(power - 4 * fraction.len() as i64).ok().filter(|power| power.abs() < 2 * TOO_LARGE)?;
    let down = number.bits().saturating_sub(128);
    let (top, lost) = number.shifted_right(down);
    Some(rounded(negative, top | u128::from(lost), power + down as i32))
}

struct Digits<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    power: i64,
}

impl<'a> Digits<'a> {
    fn of(text: &'a [u8], mark: u8, is_digit: fn(&u8) -> bool) -> Option<Self> {
        let (digits, power) = match text.iter().position(|byte| byte.eq_ignore_ascii_case(&mark)) {
            Some(at) => (&text[..at], power(&text[at + 1..])?),
            None => (text, 0),
        };
        let point = digits.iter().position(|byte| *byte == b'.');
        let (whole, fraction) = point.map_or((digits, &[][..]), |at| (&digits[..at], &digits[at + 1..]));
        let sound = !(whole.is_empty() && fraction.is_empty()) && whole.iter().chain(fraction).all(is_digit);
        sound.then_some(Digits { whole, fraction, power })
    }
}

fn power(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0i64, |number, digit| (number * 10 + i64::from(digit - b'0')).min(1 << 40));
    Some(sign * number)
}

/// `number * 10^power`, rounded once.
fn scaled(negative: bool, mut number: Big, power: i64) -> Float {
    if power >= 0 {
        (0..power).for_each(|_| number.multiply_add(10, 0));
        let shift = number.bits().saturating_sub(128);
        let (top, lost) = number.shifted_right(shift);
        return rounded(negative, top | u128::from(lost), shift as i32);
    }
    let mut divisor = Big::from(1);
    (0..-power).for_each(|_| divisor.multiply_add(10, 0));
    // So that the quotient has 64 bits and a few more, and is rounded by what is left over.
    let shift = (divisor.bits() + 70).saturating_sub(number.bits());
    number.shift_left(shift);
    let mut quotient = 0u128;
    let steps = number.bits() - divisor.bits();
    divisor.shift_left(steps);
    for _ in 0..=steps {
        quotient <<= 1;
        if number.compare(&divisor) != Ordering::Less {
            number.subtract(&divisor);
            quotient |= 1;
        }
        number.shift_left(1);
    }
    rounded(negative, quotient << 1 | u128::from(!number.is_zero()), -(shift as i32) - 1)
}

/// To the nearest, halves to the even one. The lowest bit of `mantissa` may stand for anything that was lost below it.
fn rounded(negative: bool, mantissa: u128, exponent: i32) -> Float {
    if mantissa == 0 {
        return Float { negative: false, mantissa: 0, exponent: 0 };
    }
    let bits = 128 - mantissa.leading_zeros();
    if bits <= 64 {
        let up = 64 - bits;
        return Float { negative, mantissa: (mantissa << up) as u64, exponent: exponent - up as i32 };
    }
    let down = bits - 64;
    let mut exponent = exponent + down as i32;
    let mut top = (mantissa >> down) + u128::from(rounds_up(mantissa, down));
    if top >> 64 != 0 {
        top >>= 1;
        exponent += 1;
    }
    Float { negative, mantissa: top as u64, exponent }
}

fn rounds_up(number: u128, down: u32) -> bool {
    let (rest, half) = (number & ((1 << down) - 1), 1 << (down - 1));
    rest > half || (rest == half && (number >> down) & 1 == 1)
}

impl Number {
    /// Nothing if that is infinite.
    pub(super) fn plus(self, other: Number) -> Option<Float> {
        let (Number::Finite(one), Number::Finite(other)) = (self, other) else { return None };
        Some(one.plus(other)).filter(|sum| !sum.is_too_large())
    }
}

impl Float {
    fn plus(self, other: Float) -> Float {
        if self.mantissa == 0 || other.mantissa == 0 {
            return if self.mantissa == 0 { other } else { self };
        }
        let (large, small) = if (self.exponent, self.mantissa) < (other.exponent, other.mantissa) {
            (other, self)
        } else {
            (self, other)
        };
        let distance = (large.exponent - small.exponent) as u32;
        let (wide, narrow) = (u128::from(large.mantissa) << 63, u128::from(small.mantissa) << 63);
        let lost = distance > 127 || narrow & ((1 << distance) - 1) != 0;
        let narrow = narrow.checked_shr(distance).unwrap_or(0) | u128::from(lost);
        let sum = if large.negative == small.negative { wide + narrow } else { wide - narrow };
        rounded(large.negative, sum, large.exponent - 63)
    }

    fn is_too_large(self) -> bool {
        self.mantissa != 0 && self.exponent + 64 > TOO_LARGE
    }

    /// 17 places after the point, without the zeros at their end.
    pub(super) fn to_text(self) -> Vec<u8> {
        let (whole, fraction) = if self.exponent >= 0 {
            let mut whole = Big::from(self.mantissa);
            whole.shift_left(self.exponent as usize);
            (whole.to_decimal(), 0)
        } else {
            const PLACES: u128 = 100_000_000_000_000_000;
            let down = self.exponent.unsigned_abs();
            let scaled = u128::from(self.mantissa) * PLACES; // below 2^121
            let scaled = if down < 128 { (scaled >> down) + u128::from(rounds_up(scaled, down)) } else { 0 };
            ((scaled / PLACES).to_string(), scaled % PLACES)
        };
        let mut text = format!("{whole}.{fraction:017}");
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        if self.negative && text != "0" {
            text.insert(0, '-');
        }
        text.into_bytes()
    }
}

/// A whole number of any size, in words of 32 bits, the lowest first and the highest not zero.
#[derive(Clone, Debug, Default)]
struct Big(Vec<u32>);

impl From<u64> for Big {
    fn from(number: u64) -> Self {
        let mut big = Big(vec![number as u32, (number >> 32) as u32]);
        big.trim();
        big
    }
}

impl Big {
    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> usize {
        self.0.last().map_or(0, |top| self.0.len() * 32 - top.leading_zeros() as usize)
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn multiply_add(&mut self, factor: u32, add: u32) {
        let mut carry = u64::from(add);
        for word in &mut self.0 {
            carry += u64::from(*word) * u64::from(factor);
            *word = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        let mut carry = 0;
        for word in &mut self.0 {
            let wide = u64::from(*word) << (bits % 32) | carry;
            *word = wide as u32;
            carry = wide >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
        self.0.splice(..0, std::iter::repeat_n(0, bits / 32));
    }

    /// The 128 bits from there on, and whether anything below was set.
    fn shifted_right(&self, bits: usize) -> (u128, bool) {
        let word = |at: usize| u128::from(self.0.get(at).copied().unwrap_or(0));
        let (first, rest) = (bits / 32, bits % 32);
        let mut top = (0..4).fold(0, |top, at| top | word(first + at) << (32 * at)) >> rest;
        if rest > 0 {
            top |= word(first + 4) << (128 - rest);
        }
        let lost = self.0[..first].iter().any(|word| *word != 0) || word(first) & ((1 << rest) - 1) != 0;
        (top, lost)
    }

    fn compare(&self, other: &Big) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Something that is not larger.
    fn subtract(&mut self, other: &Big) {
        let mut borrow = 0;
        for (at, word) in self.0.iter_mut().enumerate() {
            let less = i64::from(*word) - i64::from(other.0.get(at).copied().unwrap_or(0)) - borrow;
            *word = less as u32;
            borrow = i64::from(less < 0);
        }
        self.trim();
    }

    fn to_decimal(mut self: Big) -> String {
        const CHUNK: u64 = 1_000_000_000;
        let mut chunks = Vec::new();
        while !self.is_zero() {
            let mut rest = 0;
            for word in self.0.iter_mut().rev() {
                rest = rest << 32 | u64::from(*word);
                *word = (rest / CHUNK) as u32;
                rest %= CHUNK;
            }
            self.trim();
            chunks.push(rest);
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        chunks.iter().rev().for_each(|chunk| text.push_str(&format!("{chunk:09}")));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        let sum = parse(one.as_bytes())?.plus(parse(other.as_bytes())?)?;
        Some(String::from_utf8(sum.to_text()).expect("digits"))
    }

    /// Answers of a real Redis 7.0.
    #[test]
    fn sums_as_redis_prints_them() {
        for (one, other, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3", "0"),
            ("-0", "-0", "0"),
            ("1e20", "0.1", "100000000000000000000"),
            ("1", "1e-17", "1.00000000000000001"),
            ("1", "1e-18", "1"),
            ("0.5", "-1.75", "-1.25"),
            (".5", "5.", "5.5"),
            ("+1", "0", "1"),
            ("0x10", "0X.8P1", "17"),
        ] {
            assert_eq!(sum(one, other).as_deref(), Some(expected), "{one} + {other}");
        }
    }

    #[test]
    fn what_is_no_number() {
        for text in [
            "",
            " 1",
            "1 ",
            "abc",
            "1e",
            "e1",
            ".",
            "1.2.3",
            "nan",
            "--1",
            "1e5000",
            "1e-5000",
            "0x",
            "0xg",
            "0x1p",
            "0x1p99999",
            "1e99999999999",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(b"inf"), Some(Number::Infinite));
        assert_eq!(sum("1e4932", "1e4932"), None);
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("0e99999", "1").as_deref(), Some("1"));
    }
}
