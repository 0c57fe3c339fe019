//! The unsafe ways out: a bucket that lost every member, a meta group that lost most voters. Each shows first what may be lost, and does
//! nothing before that is accepted.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use meta::Survey;
use serde_json::json;
use server::RepairView;

use crate::ask::At;

#[derive(Args, Debug)]
pub(crate) struct Repair {
    /// Such as b3; several are repaired one after the other
    #[arg(required = true, num_args = 1..)]
    buckets: Vec<String>,
    /// Do it, though acknowledged writes are lost by it
    #[arg(long)]
    accept_data_loss: bool,
    /// Who asks, for the record
    #[arg(long, env = "USER", default_value = "somebody")]
    by: String,
    #[command(flatten)]
    at: At,
}

impl Repair {
    pub(crate) fn run(self) -> Result<ExitCode> {
        for bucket in &self.buckets {
            let body = json!({ "by": self.by, "accept_data_loss": self.accept_data_loss });
            let text = self.at.post(&format!("/v1/repair/{bucket}"), &body.to_string())?;
            let view: RepairView = serde_json::from_str(&text).context("the answer is not understood")?;
            say!("{}", view.text.trim_end());
            match view.epoch {
                Some(epoch) => say!("\n{bucket} is repaired, in e{epoch}. 'godwit operations' says that it was."),
                None => say!("\nNothing is done yet. To do it: godwit repair {bucket} --accept-data-loss"),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Args, Debug)]
pub(crate) struct RepairMeta {
    /// Data directories of the voters that are left; their nodes must not run
    #[arg(required = true, num_args = 1..)]
    data: Vec<PathBuf>,
    /// Do it, to the one that knows most, though changes of the blueprint may be lost by it
    #[arg(long)]
    accept_data_loss: bool,
}

impl RepairMeta {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut found = Vec::new();
        for data in &self.data {
            let survey = runtime.block_on(meta::survey(&file_in(data)));
            found.push((data, survey.with_context(|| format!("{} cannot be looked at", data.display()))?));
        }
        for (data, survey) in &found {
            say!("{}: {}", data.display(), describe(survey));
        }
        let (data, best) = found.iter().max_by_key(|(_, survey)| survey.last).context("one was named")?;
        if found.iter().any(|(_, other)| other.cluster != best.cluster) {
            bail!("these are voters of different clusters: name those of one");
        }
        let here: Vec<_> = found.iter().map(|(_, survey)| survey.me).collect();
        let lost: Vec<_> = best.voters.iter().filter(|voter| !here.contains(voter)).collect();
        let names: Vec<String> = lost.iter().map(|voter| name_of(best, **voter)).collect();
        if 2 * lost.len() < best.voters.len() {
            bail!(
                "{} of {} voters are here, which are most of them: start their nodes, and nothing is lost. If they run and do not agree, \
                 'godwit why' says what they wait for",
                best.voters.len() - lost.len(),
                best.voters.len()
            );
        }
        say!("\n{} would be the only voter, and others would join it.", name_of(best, best.me));
        say!("May be lost: every change of the blueprint that only {} had, though it was accepted.", names.join(", "));
        say!("With it acknowledged writes: a bucket may go on with a copy that had been dismissed by such a change.");
        say!("Never start these again with the data that they have now: {}.", names.join(", "));
        say!(
            "They do not know of the new group, and would keep a blueprint of their own. Move their data away; they join as new nodes."
        );
        if !self.accept_data_loss {
            say!("\nNothing is done yet. To do it: godwit repair-meta {} --accept-data-loss", data.display());
            return Ok(ExitCode::SUCCESS);
        }
        runtime.block_on(meta::reform(&file_in(data))).with_context(|| format!("{} is as it was", data.display()))?;
        say!("\nDone. Start {} again as it was started before, then the others.", name_of(best, best.me));
        Ok(ExitCode::SUCCESS)
    }
}

fn file_in(data: &std::path::Path) -> PathBuf {
    data.join("meta.redb")
}

fn name_of(survey: &Survey, node: blueprint::NodeId) -> String {
    survey.state.blueprint.nodes.get(&node).map_or_else(|| node.to_string(), |known| known.name.clone())
}

fn describe(survey: &Survey) -> String {
    let voters: Vec<String> = survey.voters.iter().map(|voter| name_of(survey, *voter)).collect();
    let (term, index) = survey.last;
    format!(
        "{} of cluster {}, one of the voters {}; its log ends at entry {index} of term {term}, is known to be committed up to {}, and \
         leads to {}",
        name_of(survey, survey.me),
        survey.cluster,
        voters.join(", "),
        survey.committed,
        survey.state.blueprint.epoch
    )
}
