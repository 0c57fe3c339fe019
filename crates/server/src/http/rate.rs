//! Bytes per second, as people write them.

/// `20MB/s`, `500 KB/s`, `1.5GB`, `1MiB/s`, `1000000`; none for `off`.
pub(super) fn parse(text: &str) -> Result<Option<u64>, String> {
    let wrong = || format!("'{text}' is no rate: bytes per second, such as 20MB/s or 500KB/s; or off");
    let said = text.trim();
    if said.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let said = said.strip_suffix("/s").unwrap_or(said).trim();
    let end = said.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(said.len());
    let (number, unit) = said.split_at(end);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" | "k" => 1_000,
        "mb" | "m" => 1_000_000,
        "gb" | "g" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let rate = number * unit as f64;
    // Beyond this no disk and no network is: whoever says so means something else.
    if rate.is_finite() && rate < 1e15 { Ok(Some(rate as u64)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_as_people_write_them() {
        for (text, rate) in [
            ("off", None),
            ("OFF ", None),
            ("20MB/s", Some(20_000_000)),
            ("20mb", Some(20_000_000)),
            ("500 KB/s", Some(500_000)),
            ("1.5GB/s", Some(1_500_000_000)),
            ("1MiB/s", Some(1 << 20)),
            ("77", Some(77)),
            ("0", Some(0)),
        ] {
            assert_eq!(parse(text), Ok(rate), "{text}");
        }
        for wrong in ["", "fast", "-1MB/s", "1.2.3", "10MB/h", "MB/s", "1e9", "99999999999GB/s"] {
            assert!(parse(wrong).is_err(), "{wrong}: {:?}", parse(wrong));
        }
    }
}
