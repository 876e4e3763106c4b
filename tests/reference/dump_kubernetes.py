# SPDX-License-Identifier: BSD-3-Clause
"""Checks examples/kubernetes against the published schemas, and dumps the part of them that it uses.

    pip install pyyaml kubernetes-validate kubeflow-trainer-api cloudcoil-models-prometheus-operator
    sh examples/kubernetes/rules.sh > rules.yaml
    python3 tests/reference/dump_kubernetes.py examples/kubernetes/*.yaml rules.yaml > tests/data/kubernetes.tsv

A row is KIND, path, type, and what is allowed or required there: [] is an item of a list, * a key that the
user chooses.  tests/lint/kubernetes.bats compares the manifests with the rows.  An unknown field, a
wrong type or a missing required field is an error here already.  Only Kubernetes' own schemas and those
of Kubeflow Trainer, JobSet and Prometheus Operator are in packages; the fields of MPIJob v2beta1 are
below, from its custom resource definition (release 0.6).
"""
import json
import pathlib
import sys

import cloudcoil.models.prometheus_operator.v1 as prometheus
import kubeflow_trainer_api.models as trainer
import kubernetes_validate
import yaml

KUBERNETES = sorted(pathlib.Path(kubernetes_validate.__file__).parent.glob("kubernetes-json-schema/*-local-strict"))[-1]
POD = {"$ref": "/api/_definitions.json#/$defs/io.k8s.api.core.v1.PodTemplateSpec"}
META = {"$ref": "/api/_definitions.json#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def record(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def one_of(*values):
    return {"type": "string", "enum": list(values)}


REPLICAS = record(
    replicas=NUMBER, restartPolicy=one_of("Never", "OnFailure"), template=POD)
MPIJOB = record(
    apiVersion=one_of("kubeflow.org/v2beta1"), kind=one_of("MPIJob"), metadata=META,
    spec=record(
        ["mpiReplicaSpecs"],
        slotsPerWorker=NUMBER, runLauncherAsWorker={"type": "boolean"}, sshAuthMountPath=TEXT,
        launcherCreationPolicy=one_of("AtStartup", "WaitForWorkersReady"),
        mpiImplementation=one_of("OpenMPI", "Intel", "MPICH"),
        runPolicy=record(
            cleanPodPolicy=one_of("None", "Running", "All"), ttlSecondsAfterFinished=NUMBER,
            activeDeadlineSeconds=NUMBER, backoffLimit=NUMBER, suspend={"type": "boolean"}, managedBy=TEXT),
        mpiReplicaSpecs=record(["Launcher"], Launcher=REPLICAS, Worker=REPLICAS)))


def schema_of(manifest):
    kind, group = manifest["kind"], manifest["apiVersion"].split("/")
    if kind == "MPIJob":
        return MPIJOB, {}
    model = {
        "TrainJob": lambda: trainer.TrainerV1alpha1TrainJob,
        "ClusterTrainingRuntime": lambda: trainer.TrainerV1alpha1ClusterTrainingRuntime,
        "JobSet": lambda: trainer.JobsetV1alpha2JobSet,
        "ServiceMonitor": lambda: prometheus.ServiceMonitor,
        "PrometheusRule": lambda: prometheus.PrometheusRule,
    }.get(kind)
    if model:
        schema = model().model_json_schema(by_alias=True)
        return schema, schema["$defs"]
    name = "-".join([kind.lower()] + group).replace(".k8s.io", "")
    return json.loads((KUBERNETES / f"{name}.json").read_text()), {}


CORE = json.loads((KUBERNETES / "_definitions.json").read_text())["$defs"]
rows = set()


def resolve(schema, defs):
    while "$ref" in schema:
        name = schema["$ref"].split("/")[-1]
        # Wrapped in a class of its own in the Python packages.
        if name.endswith("IntOrString") or name.endswith("Quantity"):
            return {"type": ["integer", "string"]}
        schema = defs[name] if schema["$ref"].startswith("#") and name in defs else CORE[name]
    return schema


def types(schema, defs):
    """The names of the JSON types that a value may have, and the schemas they are from."""
    schema = resolve(schema, defs)
    parts = [p for k in ("anyOf", "oneOf", "allOf") for p in schema.get(k, [])]
    if parts:
        return [t for p in parts for t in types(p, defs)]
    names = schema.get("type", "object")
    return [(n, schema) for n in ([names] if isinstance(names, str) else names) if n != "null"]


def walk(kind, path, value, schema, defs):
    got = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}[type(value)]
    known = types(schema, defs)
    match = [s for n, s in known if n == got or (n == "number" and got == "integer")]
    if not match:
        sys.exit(f"{kind} {path}: {got}, expected {sorted({n for n, _ in known})}")
    match = match[0]
    allowed = match.get("enum") or ([match["const"]] if "const" in match else [])
    if allowed and value not in allowed:
        sys.exit(f"{kind} {path}: '{value}', expected one of {allowed}")
    extra = match.get("required", []) if got == "object" else [a for a in allowed if a is not None]
    rows.add((kind, path or ".", "|".join(sorted({n for n, _ in known})), ",".join(map(str, sorted(extra)))))
    if got == "array":
        for item in value:
            walk(kind, path + "[]", item, match["items"], defs)
    if got != "object":
        return
    for name in match.get("required", []):
        if name not in value:
            sys.exit(f"{kind} {path}: lacks '{name}'")
    for name, child in value.items():
        properties, other = match.get("properties", {}), match.get("additionalProperties")
        if name in properties:
            walk(kind, f"{path}.{name}".lstrip("."), child, properties[name], defs)
        elif isinstance(other, dict):
            walk(kind, f"{path}.*".lstrip("."), child, other, defs)
        else:
            sys.exit(f"{kind} {path}: unknown field '{name}'")


for file in sys.argv[1:]:
    for manifest in yaml.safe_load_all(open(file)):
        schema, defs = schema_of(manifest)
        walk(manifest["kind"], "", manifest, schema, defs)
print("# SPDX-License-Identifier: BSD-3-Clause\n# Made by tests/reference/dump_kubernetes.py.")
for row in sorted(rows):
    print("\t".join(row))
