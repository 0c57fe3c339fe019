//! People know nodes by their names.

use server::NodeStatus;

/// The text with the names of nodes instead of their ids.
pub(crate) fn named(text: &str, nodes: &[NodeStatus]) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        whole.push_str(nodes.iter().find(|node| node.id == word).map_or(word, |node| &node.name));
        let next = after.find(is_of_word).unwrap_or(after.len());
        whole.push_str(&after[..next]);
        rest = &after[next..];
    }
    whole
}

/// `node-1` is one word, and not to be looked for in.
fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '-' || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_names() {
        let node = |id: &str, name: &str| NodeStatus {
            id: id.into(),
            name: name.into(),
            zone: String::new(),
            state: String::new(),
            reachable: true,
            leads: 0,
            follows: 0,
            echoed: 0,
            cluster: String::new(),
            any: String::new(),
            http: String::new(),
            peers: String::new(),
        };
        let nodes = [node("n1", "node-1"), node("n12", "node-2")];
        assert_eq!(named("n1 and n12/3, b1, n123; n1-1", &nodes), "node-1 and node-2/3, b1, n123; n1-1");
        assert_eq!(named("", &nodes), "");
        assert_eq!(named("… n1", &nodes), "… node-1");
    }
}
