use super::*;

#[test]
fn what_is_printed_can_be_typed() {
    for text in ["replace-node/4.filling/joiner/wipe", "split-bucket/1/old-primary/pause", "drain"] {
        assert_eq!(text.parse::<Cell>().expect(text).to_string(), text);
    }
}
