"""The platform as containers: what `docker-compose.yaml` needs beside the images."""
