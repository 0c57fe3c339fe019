//! How things look in a scenario.

use std::time::Duration;

use registrar::{Answer, Content, Event, Key, Message, Part, Phase, Row, Standing, UpdateNumber, Wait, Waiting};

pub(crate) fn name(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

pub(crate) fn number(number: UpdateNumber) -> String {
    if number == UpdateNumber::ZERO { "nothing".to_owned() } else { number.to_string() }
}

pub(crate) fn span(span: Duration) -> String {
    format!("{span:?}")
}

pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Compare { .. } => "Compare".into(),
        Message::Same { .. } => "Same".into(),
        Message::Check { standing, .. } => format!("Check {}", show(standing)),
        Message::Checked { standing, .. } => format!("Checked {}", show(standing)),
        Message::Pull { owner, onto, after, .. } if onto == after => format!("Pull {owner} onto {}", number(*onto)),
        Message::Pull { owner, onto, after, .. } => {
            format!("Pull {owner} onto {} after {}", number(*onto), number(*after))
        }
        Message::Pulled { owner, answer: Answer::Part(rows), .. } => format!("Pulled {owner} {}", part(rows)),
        Message::Pulled { owner, answer: Answer::Nothing { known }, .. } => {
            format!("Pulled {owner}: no more than {}", number(*known))
        }
        Message::Push(rows) => format!("Push {}", part(rows)),
    }
}

fn show(standing: &Standing) -> String {
    let phase = match standing.phase {
        Phase::Starting => "(starting)",
        Phase::Operating => "(operating)",
    };
    let claims = standing.claims.iter().map(|claim| format!(" {} {}", claim.owner, number(claim.known)));
    let refused = standing.refused.map(|refused| format!(", refused {refused}")).unwrap_or_default();
    format!("{phase}{}{refused}", claims.collect::<Vec<_>>().join(","))
}

/// `onto 100:1 upto 100:2 [a=1 100:2 10s left]`.
pub(crate) fn part(part: &Part) -> String {
    let after = if part.after == part.onto { String::new() } else { format!(" after {}", number(part.after)) };
    let as_of = if part.is_last() { String::new() } else { format!(" of {}", number(part.as_of)) };
    let floor = if part.floor == UpdateNumber::ZERO { String::new() } else { format!(" floor {}", part.floor) };
    let rows: Vec<String> = part.rows.iter().map(row).collect();
    format!("onto {}{after} upto {}{as_of}{floor} [{}]", number(part.onto), number(part.upto), rows.join(", "))
}

fn row(row: &Row) -> String {
    let key = match &row.key {
        Key::Name(key) => name(key),
        Key::Predecessor(old) => old.to_string(),
    };
    let content = match &row.content {
        Content::Value { bytes, left } => format!("{key}={} for {}", name(bytes), span(*left)),
        Content::Gone => format!("{key} gone"),
        Content::TakenOver { upto } => format!("{key} taken over upto {upto}"),
    };
    format!("{content} ({})", row.number)
}

pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Resumed { above } => format!("resumes above {above}"),
        Event::Operating => "operates".to_owned(),
        Event::Complete => "is complete".to_owned(),
        Event::Live { peer, sent } => format!("{peer} is live, from {}", number(*sent)),
        Event::Away { peer } => format!("{peer} is away"),
        Event::PushRefused { owner, onto, known } => {
            format!("refuses a push of {owner} onto {}: has {}", number(*onto), number(*known))
        }
        Event::PullFailed { owner, from } => format!("could not pull {owner} from {from}"),
        Event::Replaced { owner, upto } => format!("replaces all it had of {owner}, upto {upto}"),
        Event::Renumbered { above } => format!("goes on above {above}"),
        Event::TookOver { owner, upto, rows } => format!("takes over {rows} rows of {owner}, upto {upto}"),
        Event::Dropped { from, why } => format!("drops a message of {from}: {why:?}"),
    }
}

pub(crate) fn wait(wait: &Wait) -> String {
    let on = wait.on.map(|on| format!(" of {on}")).unwrap_or_default();
    match wait.what {
        Waiting::Peers => "who the peers are".to_owned(),
        Waiting::Check => format!("the answer to a check{on}"),
        Waiting::Return => format!("the return{on}"),
        Waiting::Pull { owner } => format!("rows of {owner}, from a pull{on}"),
        Waiting::Turn { owner } => format!("rows of {owner}: a push may be under way"),
        Waiting::PeerPulls => format!("the pull{on}: what it misses does not fit in a push"),
        Waiting::Numbers { updates } => format!("the end of the start: {updates} updates"),
        Waiting::Disk { updates } => format!("the disk: {updates} updates"),
        Waiting::TakeOver { owner } => format!("completeness, to take over the rows of {owner}"),
    }
}
