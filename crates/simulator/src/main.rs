use simulator::{
    plan::Plan,
    runner,
    trace::{Trace, Wanted},
};
fn main() {
    std::panic::set_hook(Box::new(|_| ()));
    let args: Vec<String> = std::env::args().collect();
    let a: u64 = args[2].parse().unwrap();
    if args[1] == "replay" {
        let bucket = args.get(3).and_then(|b| b.parse().ok());
        println!("{:?}", Plan::draw(a));
        let o = runner::run_plan::<blueprint::Honest>(Plan::draw(a), Trace::keeping(Wanted { host: None, bucket }));
        for l in &o.lines {
            println!("{l}");
        }
        println!("{:?}", o.failure);
        return;
    }
    if args[1] == "sab" {
        for s in simulator::sabotage::ALL {
            if args.len() > 3 && !s.name.contains(&args[3]) {
                continue;
            }
            let t = std::time::Instant::now();
            match simulator::hunt::hunt(s, 0..a, || ()) {
                Some(c) => println!("caught {} {} {} {:?}", s.name, c.seed, c.checker, t.elapsed()),
                None => println!("MISSED {} {:?}", s.name, t.elapsed()),
            }
        }
        return;
    }
    let b: u64 = args[3].parse().unwrap();
    let mut t = simulator::tally::Tally::default();
    let start = std::time::Instant::now();
    runner::run_seeds(a..b, runner::run_seed::<blueprint::Honest>, |o| {
        t.add(&o.tally);
        if let Some(f) = &o.failure {
            println!("seed {} {} {}", o.seed, f.checker, f.text.chars().take(700).collect::<String>());
        }
        true
    });
    println!("{t:#?} {:?}", start.elapsed());
}
