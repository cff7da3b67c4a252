# prometheus-client for /metrics
import json
import os
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def ask(path, body=None):
    return urllib.request.urlopen(urllib.request.Request(
        os.environ["WINNOW_URL"] + path, body and json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["WINNOW_KEY"]})).read().decode()


def read():
    samples = {}
    for family in text_string_to_metric_families(ask("/metrics")):
        assert family.documentation and family.samples, family.name
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items()
                      if k not in ("model_name", "engine")}
            samples[sample.name + json.dumps(labels)] = sample.value
            bound = labels.pop("le", None)
            if bound == "+Inf":  # is the count, and no bucket has more
                buckets = [s.value for s in family.samples
                           if s.name == sample.name and "le" in s.labels]
                assert buckets == sorted(buckets) and buckets[-1] == sample.value
    return samples


before = read()
ask("/v1/completions", {"prompt": "Say hello."})
after = read()
for name in after:
    if (name.startswith("vllm:") and "total{" in name
            and after[name] != before[name]):
        print(name.replace("{}", ""), "+%g" % (after[name] - before[name]))
