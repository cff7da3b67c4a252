//! Jinja as Python's jinja2 3.1.6 renders it in the sandbox that Hugging Face
//! transformers sets up: trim_blocks, lstrip_blocks, break and continue,
//! `{% generation %}`, tojson as json.dumps, raise_exception, strftime_now.
//!
//! A template is parsed once and shared by threads; values belong to one
//! rendering. What differs from jinja2 is refused, never guessed: there is no
//! loader (include, import, extends), no autoescape, and nothing random.

mod arguments;
mod arithmetic;
mod attributes;
mod calls;
mod compare;
mod dict;
mod error;
mod evaluate;
mod expressions;
mod filters;
mod float_text;
mod format_spec;
mod functions;
mod items;
mod json_reader;
mod lexer;
mod loops;
mod methods;
mod number_text;
mod parser;
mod percent_format;
mod python_json;
mod repr;
mod run;
mod scope;
mod sequence_filters;
mod slices;
mod str_format;
mod str_kinds;
mod str_methods;
mod str_search;
mod syntax;
mod tests;
mod text_filters;
mod value;
mod word_wrap;

pub use dict::Dict;
pub use error::{Error, Kind};
pub use json_reader::read as read_json;
pub use run::{Limits, Template};
pub use value::Value;
