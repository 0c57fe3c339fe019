//! `simulator scale`: what grows how.

use anyhow::anyhow;
use clap::Args;
use simulator::{scale, traffic};

use super::{Ending, paint, say};

/// Measure what grows with nodes and buckets: the blueprint, plans, and what simulated clusters say to each other
#[derive(Debug, Args)]
pub(super) struct Scale {
    /// Only what is measured at once; no simulated clusters
    #[arg(long)]
    brief: bool,
}

impl Scale {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let grown: Vec<_> = scale::SIZES.iter().map(|(nodes, buckets)| scale::grow(*nodes, *buckets)).collect();
        let planned: Vec<_> = scale::SIZES.iter().flat_map(|(nodes, buckets)| scale::plans(*nodes, *buckets)).collect();
        say(scale::text(&grown, &planned, paint()))?;
        if !self.brief {
            let rows = traffic::measure(&traffic::SIZES).map_err(|failure| anyhow!(failure.text))?;
            say(traffic::text(&rows, paint()))?;
        }
        Ok(Ending::Well)
    }
}
