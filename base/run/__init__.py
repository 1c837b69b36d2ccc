"""What lies in a run's folder (``folder_names``), whose it is, and with which model (``manifest``)."""
