//! People know nodes and keyspaces by their names.

use blueprint::{Blueprint, KeyspaceId, NodeId};

/// The text with the names of nodes and keyspaces instead of their ids.
pub(crate) fn named(text: &str, blueprint: &Blueprint) -> String {
    let node = |word: &str| {
        let id = word.strip_prefix('n')?.parse().map(NodeId).ok()?;
        blueprint.nodes.get(&id).map(|node| node.name.clone())
    };
    let keyspace = |word: &str| {
        let id = word.strip_prefix('k')?.parse().map(KeyspaceId).ok()?;
        blueprint.keyspaces.get(&id).map(|keyspace| keyspace.name.clone())
    };
    replace_words(text, |word| node(word).or_else(|| keyspace(word)))
}

/// Whole words only: `n1` is not in `n12`, nor in `node-1`.
pub fn replace_words(text: &str, with: impl Fn(&str) -> Option<String>) -> String {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len()));
        match with(word) {
            Some(other) => whole.push_str(&other),
            None => whole.push_str(word),
        }
        let between = after.find(is_of_word).unwrap_or(after.len());
        whole.push_str(&after[..between]);
        rest = &after[between..];
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_names() {
        let names = |word: &str| [("n1", "node-1"), ("n12", "node-2")].iter().find(|n| n.0 == word).map(|n| n.1.into());
        assert_eq!(replace_words("n1 and n12/3, b1, n123; n1-1", names), "node-1 and node-2/3, b1, n123; n1-1");
        assert_eq!(replace_words("", names), "");
        assert_eq!(replace_words("… n1", names), "… node-1");
    }
}
