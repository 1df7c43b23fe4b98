//! Measures the core's time for one message, from its received body to the re-sent body, and compares it with
//! `serde_json` skimming the same body. `cargo xtask bench core` runs the benchmark in rounds and prints the ratios.

use criterion::{BatchSize, Criterion, SamplingMode, Throughput};
use redeliver_costs::workload::{self, Operation, Workload, WorkloadCase};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    measure(&mut criterion);
}

fn measure(criterion: &mut Criterion) {
    let workload = Workload::default();
    let mut group = criterion.benchmark_group("core");
    group.sampling_mode(SamplingMode::Flat); // short samples are rarely interrupted
    for WorkloadCase { name, operation, record } in workload.cases() {
        let body = record.body.as_str();
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |bencher| match operation {
            Operation::Skim => bencher.iter(|| workload::skim_body(body)),
            Operation::Resend => {
                bencher.iter_batched(
                    || record.clone(),
                    |record| workload.resend(record),
                    BatchSize::SmallInput,
                );
            }
            Operation::ResendWithDataSchema => {
                let resend = |record| workload.resend_with_data_schema(record);
                bencher.iter_batched(|| record.clone(), resend, BatchSize::SmallInput);
            }
        });
    }
}
