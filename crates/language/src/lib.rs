//! Text tools that know nothing of logs: [`client_text`], [`dates`], [`markdown`], [`markup`], [`secrets`], [`sentences`],
//! [`traditional`] Chinese, [`when`], [`words`].

#![cfg_attr(
    not(test),
    warn(
        // Pure: clippy.toml lists what may not be called here, and why.
        clippy::disallowed_methods,
        // Bad input is data, so nothing may panic over it.
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::print_stdout,
        clippy::print_stderr,
    )
)]
#![deny(unsafe_code)]

pub mod client_text;
pub mod dates;
pub mod markdown;
pub mod markup;
pub mod secrets;
pub mod sentences;
pub mod traditional;
pub mod when;
pub mod words;
