"""The commands of the apps' processes: `python -m spark_apps run <app>`."""

from spark_apps.cli import main

if __name__ == "__main__":
    main()
