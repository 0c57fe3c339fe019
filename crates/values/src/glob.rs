//! Patterns of `KEYS` and `SCAN … MATCH`, as Redis has them: `*`, `?`, `[a-c]`, `[^x]`, and `\` before what is meant as it is.

/// Never recurses, and goes back to the last star only, which is enough: no pattern is dear.
pub fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // Where to go on if the rest does not match: after the last star, one more byte of the text skipped.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            star = Some((rest, text));
            pattern = rest;
            continue;
        }
        match (one(pattern, text.first().copied()), text) {
            (Some(rest), [_, text_rest @ ..]) => (pattern, text) = (rest, text_rest),
            _ if pattern.is_empty() && text.is_empty() => return true,
            _ => match star {
                Some((after, [_, rest @ ..])) => {
                    star = Some((after, rest));
                    (pattern, text) = (after, rest);
                }
                _ => return false,
            },
        }
    }
}

/// What is left of the pattern, if its first part matches this byte.
fn one(pattern: &[u8], byte: Option<u8>) -> Option<&[u8]> {
    let byte = byte?;
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => within(class, byte),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// A class without its end ends with the pattern.
fn within(class: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut class) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut found = false;
    loop {
        class = match class {
            [] => break,
            [b']', rest @ ..] => {
                class = rest;
                break;
            }
            [b'\\', literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
            [from, b'-', to, rest @ ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
        };
    }
    (found != negated).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_redis() {
        let yes = [
            ("*", ""),
            ("*", "any"),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("a\\*b", "a*b"),
            ("[\\]]", "]"),
            ("a*b*c", "a-b-b-c"),
            ("", ""),
            ("[abc", "c"),
            ("**x", "x"),
            ("\\", "\\"),
            ("a*", "a"),
            ("[]a", "a"),
        ];
        for (pattern, text) in yes {
            let empty_class = pattern == "[]a"; // the class ends at once and matches nothing
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), !empty_class, "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("?", ""),
            ("h[^e]llo", "hello"),
            ("a\\*b", "axb"),
            ("a*b*c", "a-b-b"),
            ("[a-c]", "d"),
            ("abc", "ab"),
        ] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    /// A pattern that costs others a day.
    #[test]
    fn many_stars_end_soon() {
        assert!(!matches(
            "a*".repeat(200).as_bytes().iter().chain(b"b").copied().collect::<Vec<_>>().as_slice(),
            &[b'a'; 5000]
        ));
    }
}
