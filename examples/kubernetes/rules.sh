#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Prints the alert rules of ../health/prometheus.yml as a PrometheusRule of the Prometheus
# Operator:
#
#   sh rules.sh | kubectl apply -f -
cat <<'END'
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: horing-check
spec:
END
sed 's/^/  /' "$(dirname "$0")/../health/prometheus.yml"
