use backcast::input::{bytes::*, walk::Walker};
use backcast::session::pack;
fn main() {
    let mode = std::env::args().nth(1).unwrap();
    let files: Vec<_> = std::env::args().skip(2).collect();
    let mut best = f64::MAX; let mut total = 0u64; let mut packed = 0; let mut recs=0; let mut trouble=0;
    for _ in 0..5 {
        let t = std::time::Instant::now(); total = 0; packed = 0; recs=0; trouble=0;
        let mut count=0usize;
        for f in &files {
            let p = std::path::Path::new(f);
            if mode == "nl" {
                use std::io::Read;
                let mut fh = std::fs::File::open(p).unwrap(); let mut b = vec![0u8; 128<<10];
                loop { let n = fh.read(&mut b).unwrap(); if n==0 {break} total += n as u64; count += memchr::memchr_iter(b'\n', &b[..n]).count(); }
                continue;
            }
            let log = Log::open(p, Packing::Plain, Io::Read).unwrap();
            let mut w = Walker::new(32<<20, &|_| ());
            log.read(p, 0..u64::MAX>>1, Limits{max_line:32<<20}, &mut w).unwrap();
            let l = w.into_builder().finish();
            total += l.bytes; recs += l.records.len(); trouble += l.problems.len();
            if mode == "pack" { let b = pack::pack(&l); packed += b.len(); assert!(pack::unpack(&b).unwrap()==l); }
        }
        std::hint::black_box(count);
        best = best.min(t.elapsed().as_secs_f64());
    }
    println!("{mode} {:.3}s {:.2} GB/s total {} recs {} packed {} ({:.2}%) trouble {}", best, total as f64/best/1e9, total, recs, packed, packed as f64*100.0/total as f64, trouble);
}
