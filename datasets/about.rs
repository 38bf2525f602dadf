//! A description of a data set as JSON.

use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};

use super::Dataset;

/// An object with all that there is to know about it; options have hyphens, as in the command.
impl Serialize for Dataset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        About::of(self).serialize(serializer)
    }
}

#[derive(Serialize)]
struct About {
    name: &'static str,
    title: &'static str,
    notes: &'static str,
    url: &'static str,
    licence: &'static str,
    citation: &'static str,
    samples: Option<u64>,
    free: bool,
    splits: Vec<Json>,
    fields: Vec<Json>,
    classes: Vec<Json>,
    files: Vec<Json>,
    options: Vec<String>,
}

impl About {
    fn of(dataset: &Dataset) -> About {
        let splits = dataset.splits.iter().map(|split| {
            json!({"name": split.name, "file": format!("{}.msgpack", split.file), "samples": split.samples})
        });
        let fields = dataset.fields.iter();
        let fields = fields.map(|(name, what)| json!({"name": name, "about": what}));
        let classes = dataset.classes.iter().map(|classes| {
            let names = classes.names.to_vec();
            let (counts, weights) = ((classes.counts)(), classes.weights());
            json!({
                "field": classes.field,
                "names": names,
                "colours": classes.colours,
                "counts": counts,
                "weights": weights,
            })
        });
        let files = dataset.files.iter().map(|file| {
            json!({
                "role": file.role,
                "path": file.path,
                "url": file.url,
                "bytes": file.size,
                "md5": file.md5,
                "sha256": file.sha256,
                "splits": file.splits,
            })
        });
        About {
            name: dataset.name,
            title: dataset.title,
            notes: dataset.notes,
            url: dataset.url,
            licence: dataset.licence,
            citation: dataset.citation,
            samples: dataset.samples(),
            free: dataset.is_free_to_fetch(),
            splits: splits.collect(),
            fields: fields.collect(),
            classes: classes.collect(),
            files: files.collect(),
            options: dataset.takes.iter().map(|take| take.name().replace('_', "-")).collect(),
        }
    }
}
