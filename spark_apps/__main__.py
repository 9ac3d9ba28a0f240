"""The commands of apps and jobs: `python -m spark_apps run <app>`, `snapshot <store>`, `verify <store>`."""

from spark_apps.cli import main

if __name__ == "__main__":
    main()
