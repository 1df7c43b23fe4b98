//! Deploys the stack to an emulator on this machine, and destroys it at the end.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

use std::process::ExitCode;
use std::thread;

use clap::Parser;
use redeliver_tests::deployment::{CdkFailure, Cloud, Outputs, local_context};
use tokio::signal::ctrl_c;
use tokio::sync::oneshot;

/// Deploy the stack to an AWS emulator on this machine, and print the queues' URLs.
///
/// The emulator listens on 127.0.0.1 only and keeps everything in memory. Runs until Enter, Ctrl-C or the end of its
/// standard input, and then destroys the stack.
#[derive(Parser)]
#[command(name = "cargo xtask deploy-local", bin_name = "cargo xtask deploy-local")]
struct Arguments {
    /// The target of every message: a URL for POST requests, http:// for one on this machine.
    #[arg(long, value_name = "URL")]
    target: String,
    /// Another context value for the stack, e.g. policy=examples/policy.json; docs/deploy/configure.md lists them.
    #[arg(long, value_name = "NAME=VALUE")]
    context: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Arguments { target, context } = Arguments::parse();
    let context: Vec<_> =
        [format!("target={target}")].into_iter().chain(local_context()).chain(context).collect();
    match run_deployment(&context).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run_deployment(context: &[String]) -> Result<(), CdkFailure> {
    eprintln!("starting an emulator and bootstrapping it ...");
    let cloud = Cloud::start().await?;
    eprintln!("deploying ...");
    let outputs = cloud.deploy_stack(context).await?;
    println!("{}", render_outputs(&cloud, &outputs));
    eprintln!("press Enter to destroy the stack");
    tokio::select! {
        () = wait_for_enter() => {}
        _ = ctrl_c() => {}
    }
    eprintln!("destroying ...");
    cloud.destroy_stack().await
}

/// Reads in a separate thread: tokio's own standard input would keep the program from exiting on Ctrl-C.
async fn wait_for_enter() {
    let (pressed, enter) = oneshot::channel();
    thread::spawn(move || {
        let _end_of_input = std::io::stdin().read_line(&mut String::new());
        let _receiver_gone = pressed.send(());
    });
    let _pressed = enter.await;
}

fn render_outputs(cloud: &Cloud, outputs: &Outputs) -> String {
    let queues = outputs.iter().map(|(name, url)| format!("{name}={url}"));
    let variables =
        cloud.client_variables().into_iter().map(|(name, value)| format!("export {name}={value}"));
    queues.chain(variables).collect::<Vec<_>>().join("\n")
}
