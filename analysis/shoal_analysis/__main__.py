"""python3 -m shoal_analysis RUN… [-o FILE]: the report, where the package was installed by pip."""
import sys

from .command import main

main(sys.argv[1:])
