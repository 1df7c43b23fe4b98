//! The commands of the `redeliver` program, each with its arguments and its exit codes.

pub mod account;
#[cfg(test)]
mod altered;
pub mod applying;
pub mod audit;
#[cfg(test)]
mod browser;
pub mod check;
pub mod completions;
pub mod connection;
pub mod cost;
pub mod dead_letters;
#[cfg(test)]
mod dying;
pub mod event_sources;
mod files;
pub mod format;
mod interrupt;
mod lines;
pub mod local;
#[cfg(test)]
mod loopback;
pub mod man;
mod markup;
pub mod output;
pub mod pause;
mod people;
pub mod polling;
pub mod purge;
pub mod redrive;
pub mod send;
mod signals;
pub mod simulate;
pub mod status;
pub mod tell;
mod text;
pub mod work;
