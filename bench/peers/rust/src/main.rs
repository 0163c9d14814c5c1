//! The process of one peer written in Rust: the protocol of worker.py, for tract and rten.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{bail, Context, Result};
use rten_tensor::prelude::*;
use serde_json::{json, Value};
use tract_onnx::prelude::*;

enum Data {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

/// A float32 or int64 array, as a .npy file holds it.
struct Array {
    shape: Vec<usize>,
    data: Data,
}

impl Array {
    fn load(path: &str) -> Result<Array> {
        let bytes = std::fs::read(path)?;
        if bytes.len() < 10 || bytes[6] != 1 {
            bail!("{path}: not a .npy file of version 1");
        }
        let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = std::str::from_utf8(&bytes[10..start])?;
        let inside = header.split(['(', ')']).nth(1).context("no shape")?;
        let shape = inside.split(',').filter_map(|s| s.trim().parse().ok()).collect();
        let data = if header.contains("<f4") {
            Data::F32(bytes[start..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect())
        } else if header.contains("<i8") {
            Data::I64(bytes[start..].chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect())
        } else {
            bail!("{path}: neither float32 nor int64");
        };
        Ok(Array { shape, data })
    }

    fn save(&self, path: &str) -> Result<()> {
        let (kind, bytes): (_, Vec<u8>) = match &self.data {
            Data::F32(v) => ("<f4", v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Data::I64(v) => ("<i8", v.iter().flat_map(|x| x.to_le_bytes()).collect()),
        };
        let shape: String = self.shape.iter().map(|d| format!("{d},")).collect();
        let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut file = std::fs::File::create(path)?;
        file.write_all(b"\x93NUMPY\x01\x00")?;
        file.write_all(&(header.len() as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        Ok(file.write_all(&bytes)?)
    }
}

/// Computes the outputs; hands them out only if asked, since the copy is not to be timed.
type Run = Box<dyn FnMut(bool) -> Result<Vec<Array>>>;

fn tract(model: &str, inputs: &[(String, Array)], threads: usize) -> Result<Run> {
    use tract_linalg::multithread::{set_default_executor, Executor};
    if threads > 1 {
        set_default_executor(Executor::multithread(threads));
    }
    let mut graph = tract_onnx::onnx().with_ignore_output_shapes(true).model_for_path(model)?;
    let mut values = tvec!();
    for (k, outlet) in graph.input_outlets()?.to_vec().into_iter().enumerate() {
        let name = graph.node(outlet.node).name.clone();
        let (_, array) = inputs.iter().find(|(n, _)| *n == name).context(name)?;
        let tensor = match &array.data {
            Data::F32(v) => Tensor::from_shape(&array.shape, v)?,
            Data::I64(v) => Tensor::from_shape(&array.shape, v)?,
        };
        graph.set_input_fact(k, InferenceFact::dt_shape(tensor.datum_type(), &array.shape))?;
        values.push(tensor.into_tvalue());
    }
    let plan = graph.into_optimized()?.into_runnable()?;
    let mut state = plan.spawn()?;
    Ok(Box::new(move |wanted| {
        let out = state.run(values.clone())?;
        if !wanted {
            return Ok(vec![]);
        }
        out.iter()
            .map(|t| {
                let data = match t.datum_type() {
                    DatumType::F32 => Data::F32(t.to_plain_array_view::<f32>()?.iter().copied().collect()),
                    DatumType::I64 => Data::I64(t.to_plain_array_view::<i64>()?.iter().copied().collect()),
                    other => bail!("output is {other:?}"),
                };
                Ok(Array { shape: t.shape().to_vec(), data })
            })
            .collect()
    }))
}

fn rten(model: &str, inputs: &[(String, Array)], threads: usize) -> Result<Run> {
    let pool = Arc::new(rten::ThreadPool::with_num_threads(threads));
    let graph = rten::ModelOptions::with_all_ops().prepack_weights(true).load_file(model)?;
    let mut values = vec![];
    for (name, array) in inputs {
        let shape = array.shape.as_slice();
        let value: rten::Value = match &array.data {
            Data::F32(v) => rten_tensor::Tensor::from_data(shape, v.clone()).into(),
            Data::I64(v) => rten_tensor::Tensor::from_data(shape, v.iter().map(|x| *x as i32).collect::<Vec<_>>()).into(),
        };
        values.push((graph.node_id(name)?, value));
    }
    Ok(Box::new(move |wanted| {
        let feed = values.iter().map(|(id, v)| (*id, v.into())).collect();
        let options = rten::RunOptions::default().with_thread_pool(Some(pool.clone()));
        let out = graph.run(feed, graph.output_ids(), Some(options))?;
        if !wanted {
            return Ok(vec![]);
        }
        out.into_iter()
            .map(|v| match v {
                rten::Value::FloatTensor(t) => Ok(Array { shape: t.shape().to_vec(), data: Data::F32(t.to_vec()) }),
                rten::Value::Int32Tensor(t) => Ok(Array {
                    shape: t.shape().to_vec(),
                    data: Data::I64(t.to_vec().into_iter().map(i64::from).collect()),
                }),
                other => bail!("output is {:?}", other.dtype()),
            })
            .collect()
    }))
}

fn answer(peer: &str, request: &Value, run: &mut Option<Run>) -> Result<Value> {
    let text = |key: &str| request[key].as_str().with_context(|| format!("no {key}"));
    if text("do")? == "load" {
        let mut inputs = vec![];
        for (name, path) in request["inputs"].as_object().context("no inputs")? {
            inputs.push((name.clone(), Array::load(path.as_str().context("no path")?)?));
        }
        let threads = request["threads"].as_u64().context("no threads")? as usize;
        *run = Some(match peer {
            "tract" => tract(text("model")?, &inputs, threads)?,
            "rten" => rten(text("model")?, &inputs, threads)?,
            _ => bail!("unknown peer"),
        });
        return Ok(json!({}));
    }
    let run = run.as_mut().context("nothing loaded")?;
    if text("do")? == "outputs" {
        let arrays = run(true)?;
        for (k, array) in arrays.iter().enumerate() {
            array.save(&format!("{}/{k}.npy", text("folder")?))?;
        }
        return Ok(json!({ "count": arrays.len() }));
    }
    for _ in 0..request["warmup"].as_u64().unwrap_or(0) {
        run(false)?;
    }
    let mut ms = vec![];
    for _ in 0..request["iterations"].as_u64().unwrap_or(1) {
        let start = Instant::now();
        run(false)?;
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(json!({ "ms": ms }))
}

fn main() -> Result<()> {
    let peer = std::env::args().nth(1).context("usage: rlx-bench-peers PEER")?;
    let mut run = None;
    for line in std::io::stdin().lock().lines() {
        let reply = answer(&peer, &serde_json::from_str(&line?)?, &mut run).unwrap_or_else(|e| {
            let text: String = format!("{e:#}").lines().next().unwrap_or("").chars().take(200).collect();
            json!({ "error": text })
        });
        println!("{reply}");
    }
    Ok(())
}
