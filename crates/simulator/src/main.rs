use simulator::{runner, plan::Plan, trace::{Trace, Wanted}};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let a: u64 = args[2].parse().unwrap();
    if args[1] == "replay" {
        let bucket = args.get(3).and_then(|b| b.parse().ok());
        println!("{:?}", Plan::draw(a));
        let o = runner::run_plan::<blueprint::Honest>(Plan::draw(a), Trace::keeping(Wanted{host: None, bucket}));
        for l in &o.lines { println!("{l}"); }
        println!("{:?}", o.failure);
        return;
    }
    let b: u64 = args[3].parse().unwrap();
    let mut t = simulator::tally::Tally::default();
    let start = std::time::Instant::now();
    runner::run_seeds(a..b, runner::run_seed::<blueprint::Honest>, |o| {
        t.add(&o.tally);
        if let Some(f) = &o.failure { println!("seed {} {} {}", o.seed, f.checker, f.text.chars().take(700).collect::<String>()); }
        true
    });
    println!("{t:#?} {:?}", start.elapsed());
}
