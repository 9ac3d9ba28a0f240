"""What Prometheus and Grafana are given: rules, alerts and dashboards, checked against the metrics that exist."""
