//! Parquet output of every flow of every run: the columns of the CSV, with the same names and
//! units.
//!
//! A run is a row group, so that only one is held in memory. Nothing is compressed: the dictionary
//! already makes repeated values small. Source: the Parquet format, `LogicalTypes.md`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use queueing::{Span, Time};
use sim::fabric::FlowOutcome;

use super::flows::Flows;
use crate::error::Error;
use crate::report;

/// The columns of the CSV, with types.
const SCHEMA: &str = "message flows {
    required binary scheduler (STRING);
    required int64 seed (INTEGER(64, false));
    required int64 id;
    required int64 src;
    required int64 dst;
    required int64 bytes;
    required double start_s;
    optional double fct_s;
    optional double slowdown;
    required int64 retransmitted;
    required int64 timeouts;
}";

/// Writes `runs` to `path`, complete or not at all.
///
/// # Errors
/// The kernel's error.
pub fn write<'a>(path: &Path, runs: impl Iterator<Item = Flows<'a>>) -> Result<(), Error> {
    report::whole_by(path, |file| groups(file, runs).map_err(io_error))
}

fn groups<'a>(file: &mut File, mut runs: impl Iterator<Item = Flows<'a>>) -> Result<(), ParquetError> {
    let schema = parse_message_type(SCHEMA).expect("a schema");
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default())?;
    runs.try_for_each(|flows| group(&mut writer, &flows))?;
    writer.close().map(drop)
}

fn group(writer: &mut SerializedFileWriter<&mut File>, flows: &Flows<'_>) -> Result<(), ParquetError> {
    let run = flows;
    let Flows { scheduler, seed, flows, .. } = *run;
    let mut group = writer.next_row_group()?;
    let seconds = |span: Span| span.as_secs_f64();
    column::<ByteArrayType>(&mut group, flows.iter().map(|_| Some(ByteArray::from(scheduler))))?;
    integers(&mut group, flows.iter().map(|_| seed))?;
    integers(&mut group, run.ids())?;
    integers(&mut group, flows.iter().map(|flow| flow.from.into()))?;
    integers(&mut group, flows.iter().map(|flow| flow.to.into()))?;
    integers(&mut group, flows.iter().map(FlowOutcome::bytes))?;
    let began = |flow: &FlowOutcome| Some(seconds(flow.began.since(Time::ZERO)));
    column::<DoubleType>(&mut group, flows.iter().map(began))?;
    column::<DoubleType>(&mut group, flows.iter().map(|flow| flow.took.map(seconds)))?;
    column::<DoubleType>(&mut group, flows.iter().map(FlowOutcome::slowdown))?;
    integers(&mut group, flows.iter().map(|flow| flow.retransmitted.into()))?;
    integers(&mut group, flows.iter().map(|flow| flow.timeouts.into()))?;
    group.close().map(drop)
}

/// Writes the next column of the schema.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut File>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let (mut present, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    let mut column = group.next_column()?.expect("the schema has as many columns");
    column.typed::<T>().write_batch(&present, Some(&levels), None)?;
    column.close()
}

/// As [`column()`]; a seed beyond 2⁶³ keeps its bits, as the column's type says.
fn integers(
    group: &mut SerializedRowGroupWriter<'_, &mut File>,
    values: impl Iterator<Item = u64>,
) -> Result<(), ParquetError> {
    column::<Int64Type>(group, values.map(|value| Some(value as i64)))
}

/// The kernel's error, where it is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => cause.downcast::<io::Error>().map_or_else(io::Error::other, |e| *e),
        other => io::Error::other(other),
    }
}
