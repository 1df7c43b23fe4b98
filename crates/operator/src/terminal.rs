//! Output on a terminal: results on standard output, remarks on standard error, and no characters that move the cursor.
//! The web pages use the same units.

pub mod escape;
pub mod help;
pub mod layout;
pub mod output;
pub mod remaining;
pub mod shell;
pub mod signals;
pub mod stderr;
pub mod units;
