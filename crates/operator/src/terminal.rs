//! What a terminal shows: results on standard output, remarks on standard error, and nothing in them that moves a
//! cursor. The units are those of the web pages, too.

pub mod escape;
pub mod output;
pub mod signals;
pub mod stderr;
pub mod units;
