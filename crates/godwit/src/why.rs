//! What waits, and why.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use server::WaitView as Wait;

use crate::ask::{At, exchange};

#[derive(Args, Debug)]
pub(crate) struct Why {
    /// Only this bucket, such as b7
    bucket: Option<String>,
    #[command(flatten)]
    at: At,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// Names of buckets in one line.
const SHOWN: usize = 6;

impl Why {
    /// Every node is asked: each knows what it waits for itself.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let status: server::Status = self.at.get("/v1/status")?;
        let path = self.bucket.as_ref().map_or_else(|| "/v1/why".into(), |bucket| format!("/v1/why?bucket={bucket}"));
        let (mut waits, mut silent) = (Vec::new(), Vec::new());
        for node in &status.nodes {
            match exchange(&node.http, "GET", &path, "") {
                Ok((200, text)) => {
                    let found: Vec<Wait> = serde_json::from_str(&text)?;
                    waits.extend(found.into_iter().map(|wait| Wait { node: node.name.clone(), ..wait }));
                }
                Ok(_) | Err(_) => silent.push(node.name.clone()),
            }
        }
        if self.json {
            say!("{}", serde_json::to_string_pretty(&waits)?);
            return Ok(ExitCode::SUCCESS);
        }
        // Nobody waits for one that has departed; if it has nothing to say either, that is no reason to look for it.
        let has_departed = |name: &&String| status.nodes.iter().any(|n| n.name == **name && n.state == "departed");
        for name in &silent {
            let how = if has_departed(&name) { "has departed" } else { "does not answer" };
            say!("{name} {how}: what it waits for is not known");
        }
        if waits.is_empty() && silent.iter().all(|name| has_departed(&name)) {
            say!("Nothing waits.");
        }
        // People know nodes by their names.
        let name = |word: &str| status.nodes.iter().find(|node| node.id == word).map(|node| node.name.clone());
        waits.iter_mut().for_each(|wait| wait.waits_for = server::replace_words(&wait.waits_for, name));
        waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        // What many buckets wait for alike is said once.
        let mut groups: Vec<(&Wait, Vec<&str>)> = Vec::new();
        for wait in &waits {
            let alike = |other: &Wait| {
                (&other.node, &other.by, &other.rule, &other.waits_for)
                    == (&wait.node, &wait.by, &wait.rule, &wait.waits_for)
            };
            match groups.iter_mut().find(|(first, _)| alike(first)) {
                Some((_, buckets)) => buckets.extend(wait.bucket.as_deref()),
                None => groups.push((wait, wait.bucket.as_deref().into_iter().collect())),
            }
        }
        for (wait, buckets) in groups {
            let what = match &buckets[..] {
                [] => String::new(),
                [one] => format!(" {one}"),
                several => {
                    let shown = several.iter().take(SHOWN).copied().collect::<Vec<_>>().join(" ");
                    let more = if several.len() > SHOWN { " …" } else { "" };
                    format!(" {} buckets ({shown}{more})", several.len())
                }
            };
            let because = if wait.because.is_empty() { String::new() } else { format!(": {}", wait.because) };
            let (node, seconds) = (&wait.node, wait.seconds);
            match wait.by.as_str() {
                "coordinator" => say!("{node} (coordinator) {}, for {seconds:.1} s", wait.waits_for),
                _ => say!("{node}{what}: {} waits for {}, for {seconds:.1} s{because}", wait.rule, wait.waits_for),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
